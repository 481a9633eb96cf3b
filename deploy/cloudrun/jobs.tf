# The one definition of what runs and when: jobs.json in the staged folder. Nothing here repeats a number of it.
locals {
  definition  = jsondecode(file("${var.folder}/jobs.json"))
  functions   = local.definition.functions
  jobs        = local.definition.jobs
  environment = merge(try(local.definition.environment, {}), var.environment)

  secrets = try(local.definition.secrets, {})

  service_names = { for name in keys(local.functions) : name => replace(name, "_", "-") }

  # What Cloud Run jobs do: the schema, ours and that of the folder, and runs that are longer than a request may be.
  commands = { for name, command in {
    migrate = { made = var.migrate == "auto", args = ["migrate", "--setup", "schema.sql"], timeout = 600 }
    run-due = { made = var.long_runs != null, args = ["run-due", "--json"], timeout = try(var.long_runs.timeout, 0) }
  } : name => command if command.made }
}
