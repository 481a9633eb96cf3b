"""Checks the permissions of whoever deploys before anything is made. Reads the access token from standard input.

    gcloud auth print-access-token | python3 deploy/gcloud/permissions.py PROJECT [CLOUD_SQL]

Checks permissions, not roles: an owner has them, and so may a custom role.
"""

import json
import os
import sys
import urllib.error
import urllib.request

# For each role that a deployment needs, one permission that stands for it.
ROLES = {
    "artifactregistry.repositories.create": "roles/artifactregistry.admin",
    "cloudbuild.builds.create": "roles/cloudbuild.builds.editor",
    "cloudscheduler.jobs.create": "roles/cloudscheduler.admin",
    "iam.serviceAccounts.actAs": "roles/iam.serviceAccountUser",
    "iam.serviceAccounts.create": "roles/iam.serviceAccountAdmin",
    "monitoring.alertPolicies.create": "roles/monitoring.alertPolicyEditor",
    "run.services.setIamPolicy": "roles/run.admin",
    "secretmanager.secrets.setIamPolicy": "roles/secretmanager.admin",
    "serviceusage.services.enable": "roles/serviceusage.serviceUsageAdmin",
    "storage.buckets.create": "roles/storage.admin",
}
# In the project of the instance.
CLOUD_SQL = {"resourcemanager.projects.setIamPolicy": "roles/resourcemanager.projectIamAdmin"}
# gcloud's own variable for another endpoint; the value ends with a slash.
API = os.environ.get(
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER", "https://cloudresourcemanager.googleapis.com/"
)


def lacking(project: str, roles: dict[str, str], token: str) -> list[str]:
    """The roles whose permission is not granted in the project."""
    body = json.dumps({"permissions": list(roles)}).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{API}v1/projects/{project}:testIamPermissions", body, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        granted = json.load(answer).get("permissions", [])
    return [role for permission, role in roles.items() if permission not in granted]


def main(project: str, cloud_sql: str = "") -> None:
    token = sys.stdin.read().strip()
    asked = {project: dict(ROLES)}
    if cloud_sql not in ("", "none"):
        instance_project = cloud_sql.rsplit(":", 2)[0]
        asked[instance_project] = asked.get(instance_project, {}) | CLOUD_SQL
    for where, roles in asked.items():
        try:
            missing = lacking(where, roles, token)
        except (OSError, ValueError) as error:
            # No reason to stop: gcloud itself reports missing permissions.
            print(f"Your permissions in {where} could not be checked: {error}", file=sys.stderr)  # noqa: T201
            continue
        if missing:
            grant = f"ask its owner to grant you {', '.join(missing)}"
            print(f"You lack permissions in {where}, and nothing was made: {grant}", file=sys.stderr)  # noqa: T201
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
