"""Settings of the site. What differs between installations comes from `config.env`."""

from __future__ import annotations

from datetime import timedelta

from config import env

BASE_DIR = env.BASE_DIR
DATA_DIR = env.DATA_DIR

SECRET_KEY = env.SECRET_KEY
DEBUG = env.DEBUG
ALLOWED_HOSTS = env.ALLOWED_HOSTS
CSRF_TRUSTED_ORIGINS = env.CSRF_TRUSTED_ORIGINS

INSTALLED_APPS = [
    "config.apps.SiteAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "django_htmx",
    "llmcore",
    "playground",
    "demo",
]

MIDDLEWARE = [
    "config.health.health",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "playground.menu.WaitingActionsInMenu",
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

if env.DATABASE_URL:
    server = env.env.db_url_config(env.DATABASE_URL)
    # A server that doesn't answer must not hold up whoever asks.
    server["OPTIONS"] = {"connect_timeout": 5, **server.get("OPTIONS", {})}
    if env.DATABASE_POOL_SIZE:
        # Under ASGI each request has a thread of its own, each tool of a run has one, and Celery ends the connection of
        # each task: only a pool spares them the connecting. After a restart of the server it must not wait longer and
        # longer.
        pool = {"min_size": 0, "max_size": env.DATABASE_POOL_SIZE, "timeout": 5, "reconnect_timeout": 2}
        server["OPTIONS"]["pool"] = pool
    DATABASES = {"default": {**server, "CONN_HEALTH_CHECKS": True}}
else:
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "db.sqlite3",
            # Web and worker are separate processes: without WAL and immediate transactions, four writers lock each
            # other out.
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000; "
                # What is deleted is overwritten, not only marked as free.
                "PRAGMA secure_delete=ON;",
            },
            # In memory, the threads of a test would lock each other out.
            "TEST": {"NAME": str(DATA_DIR / "test.sqlite3")},
        }
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "admin:login"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]

# Failed logins count in the database, so for all processes, and by name and address together: nobody can lock others
# out from elsewhere, and a proxy that hides all addresses makes it count by name.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_TEMPLATE = "registration/locked_out.html"
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

if env.PRODUCTION:
    # Who may say that a request came over HTTPS is the web server's affair (FORWARDED_ALLOW_IPS).
    SECURE_SSL_REDIRECT = env.SSL_REDIRECT
    SECURE_HSTS_SECONDS = env.HSTS_SECONDS
    SECURE_HSTS_INCLUDE_SUBDOMAINS = env.HSTS_INCLUDE_SUBDOMAINS
    SECURE_HSTS_PRELOAD = env.HSTS_PRELOAD
    # Preloading is for the owner of a whole domain to decide: it can't be taken back for months.
    SILENCED_SYSTEM_CHECKS = ["security.W021"]
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = env.HTTPS

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
# WhiteNoise warns of a directory that is not there, also where nothing is collected.
STATIC_ROOT.mkdir(exist_ok=True)
STATICFILES_DIRS = [BASE_DIR / "static"]
if env.PRODUCTION:
    # Collected once, compressed, under names with a hash that browsers may keep for good.
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }
else:
    # Straight from the apps, so that nobody has to collect them.
    WHITENOISE_USE_FINDERS = True

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

if env.REDIS_URL:
    CELERY_BROKER_URL = env.REDIS_URL
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {
        # A Redis that is away, or a network that swallows packets, must not hold up pages and workers for minutes.
        "socket_connect_timeout": 2,
        "socket_timeout": 10,
        "socket_keepalive": True,
        # A message is a hint, and the sweep finds what a lost one didn't tell. Kombu's bookkeeping of messages that
        # are being worked on would give none of them back in time, and ends a worker that loses Redis.
        "ack_emulation": False,
    }
else:
    QUEUE_DIR = DATA_DIR / "queue"
    (QUEUE_DIR / "control").mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT = "config.file_queue:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(QUEUE_DIR),
        "data_folder_out": str(QUEUE_DIR),
        "control_folder": str(QUEUE_DIR / "control"),
        "store_processed": False,
        "polling_interval": 0.01,
    }
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# However long the broker is away: a worker that gave up would have to be started by somebody.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
        "json": {"()": "config.logs.JSONFormatter"},
    },
    "handlers": {
        "stream": {
            "class": "logging.StreamHandler",
            "stream": f"ext://sys.{env.LOG_STREAM}",
            "formatter": env.LOG_FORMAT,
        }
    },
    "root": {"handlers": ["stream"], "level": env.LOG_LEVEL},
    "loggers": {
        # Their own handlers would write everything a second time, in another form.
        "django": {"handlers": [], "propagate": True},
        "uvicorn.error": {"handlers": ["stream"], "propagate": False},
        # It would log the whole URL of each call, and some services want their key in it.
        "httpx": {"level": "WARNING"},
    },
}

# The site's own limits of runs; a configuration can only ask for less.
LLM_MAX_ROUNDS = 50
LLM_MAX_REQUEST_BYTES = 4_000_000
# What an estimate of tokens may be wrong by: so much of a model's window is kept free.
LLM_CONTEXT_MARGIN_PERCENT = 10.0
LLM_ENCRYPTION_KEYS = env.ENCRYPTION_KEYS
LLM_KEY_VARIABLES = env.KEY_VARIABLES
LLM_ENVIRONMENT_SECRET = env.environment_secret
LLM_OLLAMA_HOST = env.OLLAMA_HOST
LLM_SECRET_VALUES = env.secret_values
# A worker that isn't heard of for this long has lost its run.
LLM_LEASE_S = env.LEASE_S
# How many provider calls may be in flight, and where all workers count them; without Redis in the database.
LLM_MAX_CALLS_IN_FLIGHT = env.MAX_CALLS_IN_FLIGHT
LLM_SERVICE_TOKENS = env.SERVICE_TOKENS
LLM_MAX_RUN_TOKENS = env.MAX_RUN_TOKENS
LLM_MAX_RUN_COST = env.MAX_RUN_COST
LLM_PERMITS_URL = env.REDIS_URL
LLM_APPROVAL_EXPIRY_S = env.APPROVAL_EXPIRY_S
# What is stored of what runs say, and how many days after its end a run keeps it (None: for good).
LLM_PRIVACY_LEVEL = env.PRIVACY_LEVEL
LLM_RAW_CAPTURE = env.RAW_CAPTURE
LLM_RAW_RETENTION_DAYS = env.RAW_RETENTION_DAYS
LLM_CONTENT_RETENTION_DAYS = env.CONTENT_RETENTION_DAYS
LLM_METADATA_RETENTION_DAYS = env.METADATA_RETENTION_DAYS
# Where watchers of a run are woken; without it they look often.
LLM_WAKEUPS_URL = env.REDIS_URL
LLM_WORKER_ALIVE_FILE = env.WORKER_ALIVE_FILE
LLM_WORKSPACES = env.WORKSPACES
LLM_QUERY_FIELDS = {
    "demo.Customer": ["city", "country", "language", "since"],
    "demo.Product": ["sku", "name", "category", "price", "stock", "reorder_level"],
    "demo.Order": ["number", "status", "created", "shipping", "total", "carrier", "customer__country"],
}
LLM_LOG_FILES = {} if env.PRODUCTION else {n: str(DATA_DIR / "logs" / f"{n}.log") for n in ("web", "worker", "model")}
DEMO_MODEL_URL = env.DEMO_MODEL_URL
