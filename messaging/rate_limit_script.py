"""The script behind `messaging.rate_limit`: asks, counts and reserves for any number of records of one configuration.

Runs on Valkey and Redis alike. KEYS and ARGV are those that `RateWindows.take_many` hands over; the answer is, for each
record, 0 for taken, 1 or 2 for a full day or minute, and its place in milliseconds from the epoch.
"""

import hashlib

#: Days ahead of which no places are kept: who would wait longer is refused once more then.
HORIZON_DAYS = 366

# The line is a hash. Minutes are counted from the epoch, days as in `date.toordinal`:
#   m<minute>  places reserved in a minute that is not over      c<minute>  how many of their holders have come
#   d<day>     places reserved in a day's minutes that are not over
#   at         no minute before this one has a free place        end        the last minute with a place
#   limits     what `at` was found under                         now        minute of the last call
#   absent     minutes with places in a row in which others called and no holder came
# Places lie in the first 50 s of a minute, so that one who comes up to 10 s late is still in time; so long his place is
# kept. Newcomers have what is neither used nor kept, which is all of a minute without places.
SCRIPT = (
    f"local HORIZON_MINUTES = {HORIZON_DAYS * 24 * 60}"
    + """
local KEEP_MS, SPAN_MS, ABSENT_MAX = 10000, 50000, 3
local now, daily, per_minute, floor_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local today, day_start, day_ttl, minute_ttl = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
local irregular, places = ARGV[9], ARGV[10]
local daily_key, minute_key, line_key = KEYS[1], KEYS[2], KEYS[3]
local minute = math.floor(now / 60000)
local pace = per_minute > 0 and per_minute or math.max(60, math.ceil(daily / 60))

local function get(name) return tonumber(redis.call('HGET', line_key, name)) or 0 end
local function add(name, count) redis.call('HSET', line_key, name, get(name) + count) end

local function first_minute(ahead) -- of the day so many days from now
  local shift = 0
  for day, minutes in string.gmatch(irregular, '(%d+):(-?%d+)') do
    if ahead >= tonumber(day) then shift = tonumber(minutes) end
  end
  return day_start + 1440 * ahead + shift
end

local function forget_the_past()
  local last = get('now')
  if last > minute + 1 then -- by a clock that was ahead: its places may be as far away as it was
    redis.call('DEL', line_key)
    return false
  end
  if last >= minute then return true end
  local absent = get('absent')
  if get('m' .. last) > 0 then absent = get('c' .. last) == 0 and absent + 1 or 0 end
  if absent >= ABSENT_MAX then -- cancelled, or sent by another server: nobody waits in this line
    redis.call('DEL', line_key)
    return false
  end
  for _, name in ipairs(redis.call('HKEYS', line_key)) do
    local what, number = string.sub(name, 1, 1), tonumber(string.sub(name, 2)) or 0
    if what == 'm' and number < minute and number >= day_start then add('d' .. today, -get(name)) end
    if ((what == 'm' or what == 'c') and number < minute) or (what == 'd' and number < today) then
      redis.call('HDEL', line_key, name)
    end
  end
  redis.call('HSET', line_key, 'now', minute, 'absent', absent)
  return true
end

local kind = redis.call('TYPE', line_key).ok
local has_line = kind == 'hash' and forget_the_past()
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', line_key) end

local used_day = daily > 0 and tonumber(redis.call('GET', daily_key)) or 0
local used_minute = per_minute > 0 and tonumber(redis.call('GET', minute_key)) or 0
local reserved, came, later_today = 0, 0, 0
if has_line then
  reserved, came = get('m' .. minute), get('c' .. minute)
  later_today = math.max(0, get('d' .. today) - reserved)
end
local lapsed = math.floor((now % 60000 - KEEP_MS) * pace / SPAN_MS) + 1

local function kept() return math.max(0, reserved - math.max(came, lapsed)) end

local at, ahead, day_end, line_end
local function reserve()
  local limits = daily .. ':' .. per_minute
  local earliest = math.ceil((now + floor_ms) / 60000)
  if not has_line then
    redis.call('HSET', line_key, 'now', minute)
    has_line = true
  end
  if not at then
    at = redis.call('HGET', line_key, 'limits') == limits and get('at') or 0
    at, ahead, day_end, line_end = math.max(at, earliest), 0, first_minute(1), get('end')
  end
  while at < minute + HORIZON_MINUTES do
    while at >= day_end do ahead, day_end = ahead + 1, first_minute(ahead + 2) end
    local day = 'd' .. (today + ahead)
    local taken = ahead == 0 and used_day + later_today + kept() or get(day)
    local in_minute = get('m' .. at)
    if daily > 0 and taken >= daily then
      at = day_end
    elseif in_minute >= pace then
      at = at + 1
    else
      add('m' .. at, 1)
      add(day, 1)
      if ahead == 0 then later_today = later_today + 1 end
      line_end = math.max(line_end, at)
      redis.call('HSET', line_key, 'at', at, 'end', line_end, 'limits', limits)
      return at * 60000 + math.floor(in_minute * SPAN_MS / pace)
    end
  end
  return (minute + HORIZON_MINUTES) * 60000
end

local answers, taken, holders = {}, 0, 0
for n = 1, #places do
  local has_place = string.sub(places, n, n) == '1'
  local held = has_place and 0 or kept()
  local held_today = has_place and 0 or later_today + held
  if daily > 0 and used_day + held_today >= daily then
    answers[n] = {1, reserve()}
  elseif per_minute > 0 and used_minute + held >= per_minute then
    answers[n] = {2, reserve()}
  else
    used_day, used_minute, taken = used_day + 1, used_minute + 1, taken + 1
    if has_place and came < reserved then came, holders = came + 1, holders + 1 end
    answers[n] = {0, 0}
  end
end

local function count(key, ttl)
  if taken > 0 then redis.call('INCRBY', key, taken) end
  if redis.call('TTL', key) == -1 then redis.call('EXPIRE', key, ttl) end
end
if daily > 0 then count(daily_key, day_ttl) end
if per_minute > 0 then count(minute_key, minute_ttl) end
if holders > 0 then add('c' .. minute, holders) end
if line_end then redis.call('EXPIRE', line_key, (line_end + 1) * 60 - math.floor(now / 1000)) end
return answers
"""
)

#: By which the server knows it.
SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()
