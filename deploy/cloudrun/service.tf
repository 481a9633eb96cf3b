resource "google_cloud_run_v2_service" "function" {
  for_each = local.functions

  name                = local.service_names[each.key]
  location            = var.region
  deletion_protection = var.deletion_protection
  # Callers are checked by IAM, before the function: see CRONLEASE_AUTH below.
  ingress = "INGRESS_TRAFFIC_ALL"

  template {
    service_account = google_service_account.function.email
    timeout         = each.value.request_timeout

    scaling {
      max_instance_count = var.max_instances
    }

    containers {
      image = var.image

      dynamic "env" {
        for_each = merge(local.environment, {
          CRONLEASE_AUTH    = "iam"
          CRONLEASE_LEASE   = each.value.lease
          CRONLEASE_MAX_RUN = each.value.max_run
          CRONLEASE_MIGRATE = var.migrate
          FUNCTION_TARGET   = each.key
          # Cloud Run does not set it, and log lines need it to link to their trace.
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

        # CPU is paid for only during requests, and a run is one.
        cpu_idle          = true
        startup_cpu_boost = true
      }

      startup_probe {
        period_seconds    = 1
        timeout_seconds   = 1
        failure_threshold = 60

        http_get {
          path = "/health/live"
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

  depends_on = [
    google_project_service.needed,
    google_project_iam_member.function_connects_to_its_database,
    google_secret_manager_secret_iam_member.function_reads_its_dsn,
    google_secret_manager_secret_iam_member.function_reads_its_secrets,
    google_sql_database.cronlease,
    google_sql_user.cronlease,
    terraform_data.migrated,
  ]
}
