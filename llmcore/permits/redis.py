"""Permits over Redis: one script does everything, in one step and by the clock of Redis."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from llmcore.permits.base import LEASE_S, Ceiling, Place, StoreAway, Ticket

# In one slot of a cluster.
NAMES = ("waiting", "held", "leases", "tickets", "last", "began")
KEYS = [f"{{llm-playground:permits}}:{name}" for name in NAMES]
# How long the answer of a Redis is waited for.
ANSWER_S = 1.0

# The rules are those of `next_granted` and `place_of`. Times are microseconds, kept as text: Lua would write them
# as powers of ten.
SCRIPT = """
local waiting, held, leases, tickets, last, began = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local op, lease, token, record, order, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function text(number) return string.format('%.0f', number) end

local function forget(gone)
  redis.call('ZREM', waiting, gone)
  redis.call('HDEL', held, gone)
  redis.call('ZREM', leases, gone)
  redis.call('HDEL', tickets, gone)
end

for _, dead in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', text(now))) do
  if dead ~= token then forget(dead) end
end
-- A Redis that has forgotten everything grants nothing until all who hold a permit have had the time to say so.
redis.call('SETNX', began, text(now))
local counted = now - redis.call('GET', began) >= lease

if op == 'leave' then
  forget(token)
elseif op == 'look' then
  if holds == '1' then
    redis.call('ZREM', waiting, token)
    redis.call('HSETNX', held, token, text(now))
  elseif redis.call('HEXISTS', held, token) == 0 and not redis.call('ZSCORE', waiting, token) then
    local newest = tonumber(redis.call('GET', last) or '0')
    if order == '' then order = text(math.max(now, newest + 1)) end
    redis.call('SET', last, text(math.max(newest, tonumber(order))))
    redis.call('ZADD', waiting, order, token)
  end
  redis.call('ZADD', leases, text(now + lease), token)
  redis.call('HSET', tickets, token, record)
end

local function ticket_of(one) return cjson.decode(redis.call('HGET', tickets, one)) end
local in_flight, total = {}, 0
local function take(provider)
  in_flight[provider] = (in_flight[provider] or 0) + 1
  total = total + 1
end
for _, one in ipairs(redis.call('HKEYS', held)) do take(ticket_of(one).provider) end

local line, full, own, same, site = {}, {}, nil, {}, 0
for _, one in ipairs(redis.call('ZRANGE', waiting, 0, -1)) do
  local ticket = ticket_of(one)
  local provider, calls = ticket.provider, ticket.calls
  if not counted or type(ticket.total) == 'number' and total >= ticket.total then full[''] = true end
  if type(calls) == 'number' and (in_flight[provider] or 0) >= calls then full[provider] = true end
  if full[''] or full[provider] then
    site = site + 1
    same[provider] = (same[provider] or 0) + 1
    if one == token then own = {provider = provider, calls = calls, same = same[provider], site = site} end
  else
    redis.call('ZREM', waiting, one)
    redis.call('HSET', held, one, text(now))
    take(provider)
  end
end

if op == 'list' then
  for _, one in ipairs(redis.call('HKEYS', held)) do
    table.insert(line, {one, redis.call('HGET', tickets, one), redis.call('HGET', held, one), '1'})
  end
  for _, one in ipairs(redis.call('ZRANGE', waiting, 0, -1)) do
    table.insert(line, {one, redis.call('HGET', tickets, one), redis.call('ZSCORE', waiting, one), '0'})
  end
  return line
end
if not own then return {0, 0, 0, 0, order} end
local score = redis.call('ZSCORE', waiting, token)
local recounting = counted and 0 or 1
if type(own.calls) == 'number' and (in_flight[own.provider] or 0) + own.same - 1 >= own.calls then
  return {own.same, same[own.provider], 0, recounting, score}
end
return {own.site, site, 1, recounting, score}
"""


class RedisTickets:
    """The tickets of a site in Redis. They outlive no restart of it: those who hold a permit or wait say so again."""

    def __init__(self, url: str, *, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self._redis = connected(url)

    def look(self, ticket: Ticket) -> Place:
        record = json.dumps(
            {
                "provider": ticket.provider,
                "calls": ticket.ceiling.calls,
                "total": ticket.ceiling.total,
                "run": ticket.run_id,
            }
        )
        order = "" if ticket.order is None else str(ticket.order)
        answer = self._call("look", ticket.token, record, order, int(ticket.held))
        position, waiting, of_site, recounting, order = answer
        return Place(
            order=int(float(order)) if order else ticket.order,
            position=position,
            waiting=waiting,
            of_site=bool(of_site),
            recounting=bool(recounting),
        )

    def leave(self, token: str) -> None:
        self._call("leave", token)

    def tickets(self) -> list[Ticket]:
        found = [ticket_of(*entry) for entry in self._call("list")]
        return sorted(found, key=lambda ticket: (not ticket.held, ticket.since))

    def _call(self, op: str, token: str = "", record: str = "", order: str = "", holds: int = 0) -> Any:
        try:
            script = self._redis.register_script(SCRIPT)
            return script(keys=KEYS, args=[op, round(self.lease_s * 1_000_000), token, record, order, holds])
        except (redis.RedisError, OSError) as error:
            raise StoreAway(str(error)) from error


@cache
def connected(url: str) -> redis.Redis:
    """The connections of this process."""
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=ANSWER_S,
        socket_timeout=ANSWER_S,
        # Once, for the connection that a restart of Redis has closed. The script may well run twice.
        retry=Retry(NoBackoff(), 1),
        decode_responses=True,
    )


def ticket_of(token: str, record: str, since: str, held: str) -> Ticket:
    ticket, at = json.loads(record), int(float(since))
    return Ticket(
        token=token,
        provider=ticket["provider"],
        ceiling=Ceiling(calls=ticket["calls"], total=ticket["total"]),
        run_id=ticket["run"],
        order=None if held == "1" else at,
        held=held == "1",
        since=at,
    )
