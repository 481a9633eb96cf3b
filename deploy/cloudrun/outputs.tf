output "urls" {
  description = "Where each function listens; only callers with roles/run.invoker on it are let in."
  value       = { for name, service in google_cloud_run_v2_service.function : name => service.uri }
}

output "jobs" {
  description = "The scheduler's jobs by their full names: gcloud scheduler jobs run NAME hits one now."
  value       = { for name, job in google_cloud_scheduler_job.hit : name => job.id }
}

output "function_account" {
  description = "What the functions run as."
  value       = google_service_account.function.email
}

output "scheduler_account" {
  description = "What the scheduler calls as."
  value       = google_service_account.scheduler.email
}

output "database_secret" {
  description = "The secret that has the DSN."
  value       = google_secret_manager_secret.database_url.id
}

output "cloud_sql_instance" {
  description = "Connection name of the Cloud SQL instance that was made, null without one."
  value       = local.made
}
