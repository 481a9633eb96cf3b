variable "project" {
  description = "ID of the project that everything is made in."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project is a project's ID: 6 to 30 lower-case letters, digits and hyphens."
  }
}

variable "region" {
  description = "Region of the service, the scheduler's jobs and the optional database: best that of your database."
  type        = string
  default     = "europe-west1"

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is a region such as europe-west1, not a zone."
  }
}

variable "name" {
  description = "Of this deployment: it comes before the names of what is made for it."
  type        = string
  default     = "cronlease"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name))
    error_message = "name is 2 to 20 lower-case letters, digits and hyphens."
  }
}

variable "folder" {
  description = "The directory that deploy/stage.sh has made and that the image was built from."
  type        = string

  validation {
    condition     = fileexists("${var.folder}/jobs.json") && fileexists("${var.folder}/schema.sql")
    error_message = "folder is a directory made by deploy/stage.sh: it has a jobs.json and a schema.sql."
  }
}

variable "image" {
  description = "The image made from that folder, best by digest: REGION-docker.pkg.dev/PROJECT/REPO/cronlease@sha256:..."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+/.+(:|@sha256:)[A-Za-z0-9._-]+$", var.image))
    error_message = "image has a registry, a name and a tag or a digest."
  }
}

variable "database_url" {
  description = "DSN of your own PostgreSQL 14 or newer; left out when cloud_sql is given. Kept in Secret Manager, not in the state."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = var.cloud_sql != null || can(regex("^postgres(ql)?://", var.database_url))
    error_message = "database_url begins with postgresql://, and without cloud_sql it is needed."
  }

  validation {
    condition     = var.cloud_sql_connection == null || try(strcontains(var.database_url, "host=/cloudsql/${var.cloud_sql_connection}"), false)
    error_message = "database_url does not name the socket of cloud_sql_connection: postgresql://USER:PASSWORD@/DATABASE?host=/cloudsql/PROJECT:REGION:INSTANCE."
  }
}

variable "database_secret_version" {
  description = "Raise it by one whenever database_url or database_password changes: nothing else shows the change."
  type        = number
  default     = 1

  validation {
    condition     = var.database_secret_version >= 1 && floor(var.database_secret_version) == var.database_secret_version
    error_message = "database_secret_version is a whole number, 1 or more."
  }
}

variable "cloud_sql" {
  description = "Make a Cloud SQL instance, reached through its socket. Null: database_url names your own server."
  type = object({
    tier                = optional(string, "db-f1-micro")
    version             = optional(string, "POSTGRES_17")
    deletion_protection = optional(bool, true)
  })
  default = null

  validation {
    condition     = var.cloud_sql == null || can(regex("^POSTGRES_(1[4-9]|[2-9][0-9])$", var.cloud_sql.version))
    error_message = "cloud_sql.version is POSTGRES_14 or newer."
  }
}

variable "cloud_sql_connection" {
  description = "PROJECT:REGION:INSTANCE of a Cloud SQL instance that is there already, in this project or another; database_url then names its socket."
  type        = string
  default     = null

  validation {
    condition     = var.cloud_sql_connection == null || can(regex("^[^:]+(:[^:]+){2,3}$", var.cloud_sql_connection))
    error_message = "cloud_sql_connection is PROJECT:REGION:INSTANCE."
  }

  validation {
    condition     = var.cloud_sql_connection == null || var.cloud_sql == null
    error_message = "cloud_sql makes an instance, cloud_sql_connection names one that is there: give one of them."
  }
}

variable "network" {
  description = "Connects to private addresses in this network, such as the private IP of a database. The subnetwork is in the region."
  type        = object({ network = string, subnetwork = string })
  default     = null

  validation {
    condition     = try(length(var.network.network) > 0 && length(var.network.subnetwork) > 0, var.network == null)
    error_message = "network has a network and a subnetwork."
  }
}

variable "long_runs" {
  description = "For runs longer than a request may be: a Cloud Run job runs what is due, and the hits over HTTP are paused."
  type = object({
    timeout  = optional(number, 7200)
    schedule = optional(string, "*/5 * * * *")
  })
  default = null

  validation {
    condition     = try(var.long_runs.timeout >= 100 && var.long_runs.timeout <= 604800, var.long_runs == null)
    error_message = "long_runs.timeout is a number of seconds, from 100 to 604800."
  }
}

variable "database_password" {
  description = "Password of the user that is made in the Cloud SQL instance; needed with cloud_sql only."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = var.cloud_sql == null || try(length(var.database_password) >= 16, false)
    error_message = "cloud_sql needs a database_password of 16 characters or more."
  }
}

variable "migrate" {
  description = "auto: the schema and the folder's schema.sql are applied before the functions are replaced. never: you do it."
  type        = string
  default     = "auto"

  validation {
    condition     = contains(["auto", "never"], var.migrate)
    error_message = "migrate is auto or never."
  }
}

variable "environment" {
  description = "Further settings of the functions, such as CRONLEASE_EVERY, over those of jobs.json."
  type        = map(string)
  default     = {}

  validation {
    condition = length(setintersection(keys(var.environment), [
      "CRONLEASE_AUTH", "CRONLEASE_LEASE", "CRONLEASE_MAX_RUN", "CRONLEASE_MIGRATE", "DATABASE_URL", "FUNCTION_SOURCE",
      "FUNCTION_TARGET", "GOOGLE_CLOUD_PROJECT", "PORT",
    ])) == 0
    error_message = "environment has a variable that is set elsewhere: see jobs.json and the other variables."
  }
}

variable "alert_channels" {
  description = "Who is told when a run fails or cannot start: names of notification channels. Without one, only the console shows it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for channel in var.alert_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", channel))])
    error_message = "alert_channels are names such as projects/my-project/notificationChannels/123: see gcloud beta monitoring channels list."
  }
}

variable "max_instances" {
  description = "Maximum number of instances. One does the work; the others answer that a run is in progress."
  type        = number
  default     = 2

  validation {
    condition     = var.max_instances >= 1 && var.max_instances <= 100
    error_message = "max_instances is from 1 to 100."
  }
}

variable "memory" {
  description = "Memory of an instance."
  type        = string
  default     = "512Mi"

  validation {
    condition     = can(regex("^[1-9][0-9]*(Mi|Gi)$", var.memory))
    error_message = "memory is written 512Mi or 1Gi."
  }
}

variable "deletion_protection" {
  description = "Whether terraform destroy is refused for the service."
  type        = bool
  default     = true
}
