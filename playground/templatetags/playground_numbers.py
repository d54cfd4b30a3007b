"""The numbers of the pages as filters."""

from django import template

from playground import numbers

register = template.Library()
register.filter("tokens", numbers.tokens)
register.filter("seconds", numbers.seconds)
register.filter("duration", numbers.duration)
register.filter("money", numbers.money)
register.filter("price", numbers.price)
register.filter("data_size", numbers.data_size)
register.filter("off_by", numbers.off_by)
register.filter("percent_of", numbers.percent)
register.filter("counted", lambda count, word: numbers.plural(count, *word.split(",")))
