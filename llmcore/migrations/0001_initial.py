import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="LanguageModel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(help_text="As the provider spells it.", max_length=200, verbose_name="name")),
                (
                    "label",
                    models.CharField(
                        blank=True,
                        help_text="How this site shows it; the name if empty.",
                        max_length=200,
                        verbose_name="label",
                    ),
                ),
                (
                    "context_window",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Tokens of prompt and answer together.",
                        null=True,
                        verbose_name="context window",
                    ),
                ),
                (
                    "max_output_tokens",
                    models.PositiveIntegerField(
                        blank=True, help_text="Most tokens of one answer.", null=True, verbose_name="output cap"
                    ),
                ),
                ("supports_tools", models.BooleanField(default=True, verbose_name="tools")),
                ("supports_tool_choice", models.BooleanField(default=True, verbose_name="tool choice")),
                (
                    "supports_temperature",
                    models.BooleanField(
                        default=True, help_text="Many reasoning models refuse it.", verbose_name="temperature"
                    ),
                ),
                ("supports_thinking", models.BooleanField(default=False, verbose_name="thinking effort")),
                ("supports_streaming", models.BooleanField(default=True, verbose_name="streaming")),
                ("supports_images", models.BooleanField(default=False, verbose_name="images")),
                (
                    "inline_think",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "no"),
                            ("tags", "in <think> tags at the start of the answer"),
                            ("prefilled", "as tags, the opening one left out"),
                        ],
                        default="",
                        max_length=10,
                        verbose_name="writes its thinking into the answer",
                    ),
                ),
                (
                    "input_price",
                    models.DecimalField(
                        blank=True,
                        decimal_places=6,
                        help_text="US dollars per million tokens. Leave blank if unknown: unpriced is shown as blank, never as 0.",
                        max_digits=12,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="input price",
                    ),
                ),
                (
                    "cache_read_price",
                    models.DecimalField(
                        blank=True,
                        decimal_places=6,
                        max_digits=12,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="cached read price",
                    ),
                ),
                (
                    "cache_creation_price",
                    models.DecimalField(
                        blank=True,
                        decimal_places=6,
                        max_digits=12,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="cache write price",
                    ),
                ),
                (
                    "output_price",
                    models.DecimalField(
                        blank=True,
                        decimal_places=6,
                        max_digits=12,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                        verbose_name="output price",
                    ),
                ),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
            ],
            options={
                "verbose_name": "model",
                "verbose_name_plural": "models",
                "ordering": ["provider__name", "name"],
            },
        ),
        migrations.CreateModel(
            name="Provider",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(unique=True, verbose_name="slug")),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                (
                    "adapter",
                    models.CharField(
                        help_text="How this service wants its requests. Most local servers are OpenAI-compatible.",
                        max_length=40,
                        verbose_name="wire format",
                    ),
                ),
                (
                    "base_url",
                    models.CharField(
                        help_text="Where the API begins, for example https://api.openai.com/v1. The key is sent to this host only.",
                        max_length=200,
                        verbose_name="base URL",
                    ),
                ),
                ("encrypted_key", models.BinaryField(blank=True, default=b"", verbose_name="encrypted API key")),
                (
                    "key_host",
                    models.CharField(
                        blank=True, editable=False, max_length=255, verbose_name="host the key was saved for"
                    ),
                ),
                (
                    "key_env",
                    models.CharField(
                        blank=True,
                        help_text="Name of an environment variable that holds the key, instead of storing it here. It is read at each run.",
                        max_length=100,
                        verbose_name="key from environment variable",
                    ),
                ),
                (
                    "allow_private_hosts",
                    models.BooleanField(
                        default=False,
                        help_text="Needed for servers on this machine or in your own network, and for plain http.",
                        verbose_name="allow a local or private address",
                    ),
                ),
                (
                    "connect_timeout_s",
                    models.FloatField(
                        default=10.0,
                        validators=[django.core.validators.MinValueValidator(0.1)],
                        verbose_name="connect timeout (s)",
                    ),
                ),
                (
                    "read_timeout_s",
                    models.FloatField(
                        default=120.0,
                        help_text="Longest silence between two pieces of an answer.",
                        validators=[django.core.validators.MinValueValidator(0.1)],
                        verbose_name="read timeout (s)",
                    ),
                ),
                (
                    "total_timeout_s",
                    models.FloatField(
                        default=600.0,
                        help_text="Longest time for one whole call.",
                        validators=[django.core.validators.MinValueValidator(0.1)],
                        verbose_name="total timeout (s)",
                    ),
                ),
                (
                    "max_attempts",
                    models.PositiveSmallIntegerField(
                        default=3,
                        help_text="How often a call is tried in all when the server fails or limits the rate.",
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="attempts",
                    ),
                ),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
            ],
            options={
                "verbose_name": "provider",
                "verbose_name_plural": "providers",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Skill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "slug",
                    models.SlugField(
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9-]*$", "Lower-case letters, digits and hyphens."
                            )
                        ],
                        verbose_name="slug",
                    ),
                ),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("description", models.TextField(blank=True, verbose_name="description")),
                (
                    "body",
                    models.TextField(
                        help_text="Markdown. It is fenced before the text of the first user message.",
                        verbose_name="body",
                    ),
                ),
                (
                    "sha256",
                    models.CharField(
                        editable=False,
                        help_text="Compared at use: a body changed past this form is not injected.",
                        max_length=64,
                        verbose_name="SHA-256 of the body",
                    ),
                ),
                (
                    "allowed_tools",
                    models.JSONField(
                        blank=True,
                        default=None,
                        help_text="A list of tool names. Leave empty for no restriction; it never approves anything.",
                        null=True,
                        verbose_name="allowed tools",
                    ),
                ),
                (
                    "trust",
                    models.SmallIntegerField(
                        choices=[(0, "untrusted"), (1, "site"), (2, "reviewed")], default=1, verbose_name="trust"
                    ),
                ),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("version", models.PositiveIntegerField(default=1, editable=False, verbose_name="version")),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
            ],
            options={
                "verbose_name": "skill",
                "verbose_name_plural": "skills",
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="Snippet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "slug",
                    models.SlugField(
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9-]*$", "Lower-case letters, digits and hyphens."
                            )
                        ],
                        verbose_name="slug",
                    ),
                ),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("body", models.TextField(verbose_name="body")),
                ("tags", models.JSONField(blank=True, default=list, verbose_name="tags")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("version", models.PositiveIntegerField(default=1, editable=False, verbose_name="version")),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
            ],
            options={
                "verbose_name": "prompt snippet",
                "verbose_name_plural": "prompt snippets",
                "ordering": ["slug"],
            },
        ),
        migrations.CreateModel(
            name="ToolGroupSwitch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True, verbose_name="tool group")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
            ],
            options={
                "verbose_name": "tool group",
                "verbose_name_plural": "tool groups",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ToolSwitch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True, verbose_name="tool")),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
            ],
            options={
                "verbose_name": "tool",
                "verbose_name_plural": "tools",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Configuration",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(unique=True, verbose_name="slug")),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("description", models.TextField(blank=True, verbose_name="description")),
                ("system_prompt", models.TextField(blank=True, verbose_name="system prompt")),
                (
                    "temperature",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(2),
                        ],
                        verbose_name="temperature",
                    ),
                ),
                (
                    "top_p",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(1),
                        ],
                        verbose_name="top p",
                    ),
                ),
                (
                    "max_tokens",
                    models.PositiveIntegerField(
                        blank=True,
                        help_text="Most tokens of one answer.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="max tokens",
                    ),
                ),
                (
                    "thinking",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "the model's default"),
                            ("off", "off"),
                            ("low", "low"),
                            ("medium", "medium"),
                            ("high", "high"),
                        ],
                        default="",
                        max_length=10,
                        verbose_name="thinking",
                    ),
                ),
                ("seed", models.BigIntegerField(blank=True, null=True, verbose_name="seed")),
                ("stream", models.BooleanField(default=True, verbose_name="stream")),
                (
                    "max_rounds",
                    models.PositiveSmallIntegerField(
                        default=5,
                        help_text="One model call each; bounded by the site's own limit.",
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="max rounds",
                    ),
                ),
                (
                    "max_tool_result_bytes",
                    models.PositiveIntegerField(
                        default=50000,
                        validators=[django.core.validators.MinValueValidator(200)],
                        verbose_name="longest tool result (bytes)",
                    ),
                ),
                (
                    "skill_budget_bytes",
                    models.PositiveIntegerField(
                        default=24000,
                        help_text="Skills over it are left out whole, from the last one on.",
                        verbose_name="skill budget (bytes)",
                    ),
                ),
                (
                    "min_skill_trust",
                    models.SmallIntegerField(
                        choices=[(0, "untrusted"), (1, "site"), (2, "reviewed")],
                        default=0,
                        verbose_name="least trust of skills",
                    ),
                ),
                (
                    "tool_groups",
                    models.JSONField(
                        blank=True,
                        default=list,
                        help_text="Names of the groups whose tools a run may use.",
                        verbose_name="tool groups",
                    ),
                ),
                (
                    "tools",
                    models.JSONField(
                        blank=True,
                        default=None,
                        help_text="Names of the tools offered by default; leave empty for all of the groups.",
                        null=True,
                        verbose_name="tools",
                    ),
                ),
                ("enabled", models.BooleanField(default=True, verbose_name="enabled")),
                ("version", models.PositiveIntegerField(default=1, editable=False, verbose_name="version")),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="configurations",
                        to="llmcore.languagemodel",
                        verbose_name="model",
                    ),
                ),
            ],
            options={
                "verbose_name": "configuration",
                "verbose_name_plural": "configurations",
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="languagemodel",
            name="provider",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="models",
                to="llmcore.provider",
                verbose_name="provider",
            ),
        ),
        migrations.CreateModel(
            name="ConfigurationSkill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveSmallIntegerField(default=0, verbose_name="position")),
                (
                    "configuration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        to="llmcore.configuration",
                        verbose_name="configuration",
                    ),
                ),
                (
                    "skill",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="llmcore.skill", verbose_name="skill"
                    ),
                ),
            ],
            options={
                "verbose_name": "skill",
                "verbose_name_plural": "skills",
                "ordering": ["position", "pk"],
            },
        ),
        migrations.AddField(
            model_name="configuration",
            name="skills",
            field=models.ManyToManyField(blank=True, through="llmcore.ConfigurationSkill", to="llmcore.skill"),
        ),
        migrations.CreateModel(
            name="ConfigurationSnippet",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("position", models.PositiveSmallIntegerField(default=0, verbose_name="position")),
                (
                    "configuration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        to="llmcore.configuration",
                        verbose_name="configuration",
                    ),
                ),
                (
                    "snippet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="llmcore.snippet", verbose_name="prompt snippet"
                    ),
                ),
            ],
            options={
                "verbose_name": "prompt snippet",
                "verbose_name_plural": "prompt snippets",
                "ordering": ["position", "pk"],
            },
        ),
        migrations.AddField(
            model_name="configuration",
            name="snippets",
            field=models.ManyToManyField(blank=True, through="llmcore.ConfigurationSnippet", to="llmcore.snippet"),
        ),
        migrations.CreateModel(
            name="UsageRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True, verbose_name="time")),
                ("run_id", models.BigIntegerField(blank=True, db_index=True, null=True, verbose_name="run")),
                ("provider_slug", models.CharField(max_length=50, verbose_name="provider")),
                ("model_name", models.CharField(max_length=200, verbose_name="model")),
                ("served_model", models.CharField(blank=True, max_length=200, verbose_name="served model")),
                ("input_tokens", models.PositiveIntegerField(null=True, verbose_name="input tokens")),
                ("output_tokens", models.PositiveIntegerField(null=True, verbose_name="output tokens")),
                ("total_tokens", models.PositiveIntegerField(null=True, verbose_name="total tokens")),
                ("cache_read_input_tokens", models.PositiveIntegerField(null=True, verbose_name="cached tokens")),
                (
                    "cache_creation_input_tokens",
                    models.PositiveIntegerField(null=True, verbose_name="cache-written tokens"),
                ),
                ("reasoning_output_tokens", models.PositiveIntegerField(null=True, verbose_name="reasoning tokens")),
                ("raw", models.JSONField(null=True, verbose_name="usage as reported")),
                ("cost", models.DecimalField(decimal_places=12, max_digits=20, null=True, verbose_name="cost (USD)")),
                ("error_kind", models.CharField(blank=True, max_length=40, verbose_name="error")),
                (
                    "configuration",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="llmcore.configuration",
                        verbose_name="configuration",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "usage record",
                "verbose_name_plural": "usage records",
                "ordering": ["-pk"],
            },
        ),
        migrations.AddConstraint(
            model_name="languagemodel",
            constraint=models.UniqueConstraint(fields=("provider", "name"), name="llmcore_model_unique"),
        ),
        migrations.AddConstraint(
            model_name="configurationskill",
            constraint=models.UniqueConstraint(
                fields=("configuration", "skill"), name="llmcore_configuration_skill_unique"
            ),
        ),
        migrations.AddConstraint(
            model_name="configurationsnippet",
            constraint=models.UniqueConstraint(
                fields=("configuration", "snippet"), name="llmcore_configuration_snippet_unique"
            ),
        ),
        migrations.CreateModel(
            name="DetectedItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=500, unique=True)),
                (
                    "provider",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="llmcore.provider",
                    ),
                ),
            ],
        ),
    ]
