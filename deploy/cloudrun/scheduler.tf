resource "google_cloud_scheduler_job" "hit" {
  for_each = local.jobs

  name             = "${var.name}-${each.key}"
  description      = "POST ${each.value.path} of ${each.value.function}"
  region           = var.region
  schedule         = each.value.schedule
  time_zone        = each.value.time_zone
  attempt_deadline = each.value.attempt_deadline
  # It would start a long run over HTTP, and that would be cut off.
  paused = var.long_runs != null

  retry_config {
    retry_count          = each.value.retry.count
    max_retry_duration   = each.value.retry.max_duration
    min_backoff_duration = each.value.retry.min_backoff
    max_backoff_duration = each.value.retry.max_backoff
    max_doublings        = each.value.retry.max_doublings
  }

  http_target {
    http_method = "POST"
    uri         = "${google_cloud_run_v2_service.function[each.value.function].uri}${each.value.path}"

    oidc_token {
      service_account_email = google_service_account.scheduler.email
      # Without it the audience is the address with its path, which the platform does not accept for /run-due.
      audience = google_cloud_run_v2_service.function[each.value.function].uri
    }
  }

  depends_on = [
    google_project_service.needed,
    google_cloud_run_v2_service_iam_member.scheduler_invokes,
  ]
}
