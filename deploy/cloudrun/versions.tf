terraform {
  # Write-only arguments: the DSN reaches Secret Manager and never the state.
  required_version = ">= 1.11"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 6.50"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

resource "google_project_service" "needed" {
  for_each = toset(concat(
    ["cloudscheduler.googleapis.com", "iam.googleapis.com", "logging.googleapis.com", "monitoring.googleapis.com",
    "run.googleapis.com", "secretmanager.googleapis.com"],
    var.cloud_sql == null && var.cloud_sql_connection == null ? [] : ["sqladmin.googleapis.com"],
  ))

  service            = each.value
  disable_on_destroy = false
}
