resource "google_cloud_run_v2_job" "command" {
  for_each = local.commands

  name                = "${var.name}-${each.key}"
  location            = var.region
  deletion_protection = false

  template {
    template {
      service_account = google_service_account.function.email
      timeout         = "${each.value.timeout}s"
      # The next hit comes by itself; a schema that cannot be applied needs a person.
      max_retries = 0

      containers {
        image   = var.image
        command = ["cronlease"]
        args    = each.value.args

        dynamic "env" {
          for_each = merge(local.environment, {
            CRONLEASE_AUTH = "none"
            # A run ends itself before the platform would end it, in time to say so.
            CRONLEASE_MAX_RUN    = "${each.value.timeout - 30}s"
            GOOGLE_CLOUD_PROJECT = var.project
          })

          content {
            name  = env.key
            value = env.value
          }
        }

        dynamic "env" {
          for_each = local.secrets

          content {
            name = env.key

            value_source {
              secret_key_ref {
                secret  = env.value
                version = "latest"
              }
            }
          }
        }

        env {
          name = "DATABASE_URL"

          value_source {
            secret_key_ref {
              secret  = google_secret_manager_secret.database_url.secret_id
              version = google_secret_manager_secret_version.database_url.version
            }
          }
        }

        resources {
          limits = {
            cpu    = "1"
            memory = var.memory
          }
        }

        dynamic "volume_mounts" {
          for_each = local.instances

          content {
            name       = "cloudsql"
            mount_path = "/cloudsql"
          }
        }
      }

      dynamic "volumes" {
        for_each = local.instances

        content {
          name = "cloudsql"

          cloud_sql_instance {
            instances = [volumes.value]
          }
        }
      }

      dynamic "vpc_access" {
        for_each = var.network == null ? [] : [var.network]

        content {
          egress = "PRIVATE_RANGES_ONLY"

          network_interfaces {
            network    = vpc_access.value.network
            subnetwork = vpc_access.value.subnetwork
          }
        }
      }
    }
  }

  depends_on = [
    google_project_service.needed,
    google_project_iam_member.function_connects_to_its_database,
    google_secret_manager_secret_iam_member.function_reads_its_dsn,
    google_secret_manager_secret_iam_member.function_reads_its_secrets,
    google_sql_database.cronlease,
    google_sql_user.cronlease,
  ]
}

# Before the functions are made or replaced. The provider cannot start a job and wait for it; gcloud can.
resource "terraform_data" "migrated" {
  count = var.migrate == "auto" ? 1 : 0

  triggers_replace = [var.image, filesha256("${var.folder}/schema.sql")]

  provisioner "local-exec" {
    command = "gcloud run jobs execute ${google_cloud_run_v2_job.command["migrate"].name} --region=${var.region} --project=${var.project} --wait --quiet"
  }
}

resource "google_cloud_run_v2_job_iam_member" "scheduler_starts" {
  count = var.long_runs == null ? 0 : 1

  location = google_cloud_run_v2_job.command["run-due"].location
  name     = google_cloud_run_v2_job.command["run-due"].name
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member
}

resource "google_cloud_scheduler_job" "long_runs" {
  count = var.long_runs == null ? 0 : 1

  name        = "${var.name}-long-runs"
  description = "Starts the Cloud Run job that runs what is due"
  region      = var.region
  schedule    = var.long_runs.schedule
  time_zone   = "Etc/UTC"

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/${google_cloud_run_v2_job.command["run-due"].id}:run"

    oauth_token {
      service_account_email = google_service_account.scheduler.email
    }
  }

  depends_on = [google_cloud_run_v2_job_iam_member.scheduler_starts]
}
