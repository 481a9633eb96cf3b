# A database that is gone fails no request, and the retry of a failed run is a skip: only the log shows them.
# deploy/alert.json has the filter.
locals {
  alert   = jsondecode(file("${path.module}/../alert.json"))
  matched = one(local.alert.conditions)
}

resource "google_monitoring_alert_policy" "trouble" {
  display_name          = local.alert.displayName
  severity              = local.alert.severity
  combiner              = local.alert.combiner
  notification_channels = var.alert_channels

  conditions {
    display_name = local.matched.displayName

    condition_matched_log {
      filter = local.matched.conditionMatchedLog.filter
    }
  }

  alert_strategy {
    auto_close = local.alert.alertStrategy.autoClose

    notification_rate_limit {
      period = local.alert.alertStrategy.notificationRateLimit.period
    }
  }

  documentation {
    content   = local.alert.documentation.content
    mime_type = local.alert.documentation.mimeType
  }

  depends_on = [google_project_service.needed]
}
