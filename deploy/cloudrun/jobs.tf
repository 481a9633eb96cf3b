# The one definition of what runs and when: deploy/jobs.json. Nothing here repeats a number of it.
locals {
  definition = jsondecode(file("${path.module}/../jobs.json"))
  functions  = local.definition.functions
  jobs       = local.definition.jobs

  service_names = { for name in keys(local.functions) : name => replace(name, "_", "-") }
}
