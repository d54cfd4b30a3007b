from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("playground", "0012_engine_actions"),
    ]

    operations = [
        migrations.AlterField(
            model_name="decisionrecord",
            name="user_id",
            field=models.CharField(max_length=255, null=True, verbose_name="user number"),
        ),
    ]
