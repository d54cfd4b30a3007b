from django.db import migrations

from playground.ordered_json import OrderedJSONField


class Migration(migrations.Migration):
    dependencies = [("playground", "0005_forked_at_round")]

    operations = [
        migrations.AlterField("run", "plan", OrderedJSONField(blank=True, null=True, verbose_name="plan")),
        migrations.AlterField("run", "request", OrderedJSONField(verbose_name="request")),
        migrations.AlterField("runcontent", "value", OrderedJSONField()),
        migrations.AlterField("runstep", "data", OrderedJSONField()),
    ]
