# The site as an image: what docker-compose.yml runs as web server, worker and migration.
FROM python:3.11-slim AS build
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY requirements.txt .
RUN pip install --no-cache-dir --disable-pip-version-check --requirement requirements.txt

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin site
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 DATA_DIR=/app/var
WORKDIR /app
COPY . .
RUN python -m compileall -q .
# With secrets that are made for this one command and kept nowhere.
RUN env $(python -m config.new_secrets) PRODUCTION=on python manage.py collectstatic --noinput
USER site
EXPOSE 8000
CMD ["uvicorn", "config.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "off"]
