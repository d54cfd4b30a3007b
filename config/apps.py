"""The admin as this site has it."""

from django.contrib.admin.apps import AdminConfig


class SiteAdminConfig(AdminConfig):
    default_site = "config.admin_site.SiteAdmin"
