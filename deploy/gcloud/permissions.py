"""Whether whoever deploys may do all of it, asked before anything is made. The access token comes on standard input.

    gcloud auth print-access-token | python3 deploy/gcloud/permissions.py PROJECT [CLOUD_SQL]

Asks for permissions, not for roles: an owner has them, and so may a role of your own.
"""

import json
import os
import sys
import urllib.error
import urllib.request

# One permission for each role that has it and more of what a deploy needs.
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
# gcloud's own variable for another address, with a slash at its end.
API = os.environ.get(
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER", "https://cloudresourcemanager.googleapis.com/"
)


def lacking(project: str, roles: dict[str, str], token: str) -> list[str]:
    """The roles of which a permission is not granted there."""
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
            # Not a reason to stop: gcloud will say what it may not do.
            print(f"Your rights in {where} could not be checked: {error}", file=sys.stderr)  # noqa: T201
            continue
        if missing:
            sentence = (
                f"You lack rights in {where}, and nothing was made: let its owner grant you {', '.join(missing)}"
            )
            print(sentence, file=sys.stderr)  # noqa: T201
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
