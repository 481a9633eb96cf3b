# What the function runs as: it may read its DSN and, with Cloud SQL, connect to that one instance.
resource "google_service_account" "function" {
  account_id   = "cronlease-function"
  display_name = "cronlease: what the function runs as"

  depends_on = [google_project_service.needed]
}

# What the scheduler calls as: it may invoke the services, nothing else.
resource "google_service_account" "scheduler" {
  account_id   = "cronlease-scheduler"
  display_name = "cronlease: what the scheduler calls as"

  depends_on = [google_project_service.needed]
}

resource "google_secret_manager_secret_iam_member" "function_reads_its_dsn" {
  secret_id = google_secret_manager_secret.database_url.secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.function.member
}

resource "google_project_iam_member" "function_connects_to_its_database" {
  count = var.cloud_sql == null ? 0 : 1

  project = var.project
  role    = "roles/cloudsql.client"
  member  = google_service_account.function.member

  condition {
    title      = "only its own instance"
    expression = "resource.name == 'projects/${var.project}/instances/${one(google_sql_database_instance.cronlease[*].name)}' && resource.service == 'sqladmin.googleapis.com'"
  }
}

resource "google_cloud_run_v2_service_iam_member" "scheduler_invokes" {
  for_each = local.functions

  location = google_cloud_run_v2_service.function[each.key].location
  name     = google_cloud_run_v2_service.function[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member
}
