"""What is stored of a run, and what of it was deleted when."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("playground", "0002_search"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="contents_deleted_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="contents deleted"),
        ),
        migrations.AddField(
            model_name="run",
            name="contents_kept_days",
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name="days contents were kept"),
        ),
        migrations.AddField(
            model_name="run",
            name="privacy_level",
            field=models.CharField(
                choices=[("full", "Full"), ("redacted", "Redacted"), ("metadata", "Metadata")],
                default="full",
                max_length=20,
                verbose_name="privacy level",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="raw_deleted_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="raw capture deleted"),
        ),
        migrations.AddField(
            model_name="run",
            name="raw_kept_days",
            field=models.PositiveIntegerField(blank=True, null=True, verbose_name="days raw captures were kept"),
        ),
        migrations.AddField(
            model_name="run",
            name="redacted_at",
            field=models.DateTimeField(blank=True, null=True, verbose_name="redacted"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("capture_raw", True), ("raw_deleted_at", None)),
                fields=["ended_at"],
                name="playground_run_raw",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("contents_deleted_at", None)), fields=["ended_at"], name="playground_run_contents"
            ),
        ),
    ]
