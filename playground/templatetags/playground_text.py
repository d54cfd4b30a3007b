"""Texts that come from models and tools, made safe to show."""

from django import template

from playground import markdown

register = template.Library()
register.filter("markdown", markdown.render)
register.filter("code_spans", markdown.code_spans)
