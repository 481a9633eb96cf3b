# What the functions and our jobs run as: it may read the DSN and, with Cloud SQL, connect to that one instance.
resource "google_service_account" "function" {
  account_id   = "${var.name}-function"
  display_name = "cronlease: what the function runs as"

  depends_on = [google_project_service.needed]
}

# What the scheduler calls as: it may invoke the services, nothing else.
resource "google_service_account" "scheduler" {
  account_id   = "${var.name}-scheduler"
  display_name = "cronlease: what the scheduler calls as"

  depends_on = [google_project_service.needed]
}

resource "google_secret_manager_secret_iam_member" "function_reads_its_dsn" {
  secret_id = google_secret_manager_secret.database_url.secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.function.member
}

# The secrets that jobs.json names, which you have made.
resource "google_secret_manager_secret_iam_member" "function_reads_its_secrets" {
  for_each = local.secrets

  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.function.member
}

resource "google_project_iam_member" "function_connects_to_its_database" {
  for_each = local.instances

  # The project of the instance, which may be another one.
  project = regex("^(.+):[^:]+:([^:]+)$", each.value)[0]
  role    = "roles/cloudsql.client"
  member  = google_service_account.function.member

  condition {
    title      = "only its own instance"
    expression = "resource.name == 'projects/${regex("^(.+):[^:]+:([^:]+)$", each.value)[0]}/instances/${regex("^(.+):[^:]+:([^:]+)$", each.value)[1]}' && resource.service == 'sqladmin.googleapis.com'"
  }
}

resource "google_cloud_run_v2_service_iam_member" "scheduler_invokes" {
  for_each = local.functions

  location = google_cloud_run_v2_service.function[each.key].location
  name     = google_cloud_run_v2_service.function[each.key].name
  role     = "roles/run.invoker"
  member   = google_service_account.scheduler.member
}
