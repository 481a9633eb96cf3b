locals {
  made = one(google_sql_database_instance.cronlease[*].connection_name)
  # At most one: the instance that is made here, or one that was there before.
  instances = { for kind, name in { made = local.made, given = var.cloud_sql_connection } : kind => name
  if kind == "made" ? var.cloud_sql != null : var.cloud_sql_connection != null }
  # Terraform writes a space as +, which libpq takes for a plus.
  password = try(replace(urlencode(var.database_password), "+", "%20"), null)
  # libpq reads a host that begins with a slash as the directory of a socket.
  socket_url = "postgresql://cronlease:${coalesce(local.password, "none")}@/cronlease?host=/cloudsql/${coalesce(local.made, "none")}"
}

resource "google_secret_manager_secret" "database_url" {
  secret_id = "${var.name}-database-url"

  replication {
    auto {}
  }

  depends_on = [google_project_service.needed]
}

resource "google_secret_manager_secret_version" "database_url" {
  secret                 = google_secret_manager_secret.database_url.id
  secret_data_wo         = var.cloud_sql == null ? var.database_url : local.socket_url
  secret_data_wo_version = var.database_secret_version
  # The revision that still serves, and the one to roll back to, read the older version.
  deletion_policy = "ABANDON"

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_sql_database_instance" "cronlease" {
  count = var.cloud_sql == null ? 0 : 1

  name                = var.name
  region              = var.region
  database_version    = var.cloud_sql.version
  deletion_protection = var.cloud_sql.deletion_protection

  settings {
    edition = "ENTERPRISE"
    tier    = var.cloud_sql.tier

    # Reached through the platform's own socket; no network may connect.
    ip_configuration {
      ipv4_enabled = true
      ssl_mode     = "ENCRYPTED_ONLY"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
    }
  }

  depends_on = [google_project_service.needed]
}

resource "google_sql_database" "cronlease" {
  count = var.cloud_sql == null ? 0 : 1

  name     = "cronlease"
  instance = google_sql_database_instance.cronlease[0].name
}

resource "google_sql_user" "cronlease" {
  count = var.cloud_sql == null ? 0 : 1

  name                = "cronlease"
  instance            = google_sql_database_instance.cronlease[0].name
  password_wo         = var.database_password
  password_wo_version = var.database_secret_version
}
