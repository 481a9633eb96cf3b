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

variable "image" {
  description = "The image made from deploy/Dockerfile, best by digest: REGION-docker.pkg.dev/PROJECT/REPO/cronlease@sha256:..."
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
  description = "auto: the first hit on an empty database creates the schema. never: only `cronlease migrate` does."
  type        = string
  default     = "auto"

  validation {
    condition     = contains(["auto", "never"], var.migrate)
    error_message = "migrate is auto or never."
  }
}

variable "environment" {
  description = "Further settings of the function, such as CRONLEASE_EVERY. Lease and max_run are in deploy/jobs.json."
  type        = map(string)
  default     = {}

  validation {
    condition = length(setintersection(keys(var.environment), [
      "CRONLEASE_AUTH", "CRONLEASE_LEASE", "CRONLEASE_MAX_RUN", "CRONLEASE_MIGRATE", "DATABASE_URL", "FUNCTION_TARGET",
      "GOOGLE_CLOUD_PROJECT",
    ])) == 0
    error_message = "environment has a variable that is set elsewhere: see deploy/jobs.json and the other variables."
  }
}

variable "alert_channels" {
  description = "Who is told when a schedule cannot be read: names of notification channels. Without one, only the console shows it."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for channel in var.alert_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", channel))])
    error_message = "alert_channels are names such as projects/my-project/notificationChannels/123: see gcloud beta monitoring channels list."
  }
}

variable "max_instances" {
  description = "How many instances may run at once. One does the work; the others answer that it is being done."
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
