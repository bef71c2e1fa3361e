/* time: the two clocks, and dates as text. */
#include "base/base_private.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

static _Atomic int64_t wall_shift, mono_shift;

static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t time_mono_us(void)
{
    return read_clock(CLOCK_MONOTONIC) + atomic_load_explicit(&mono_shift, memory_order_relaxed);
}

int64_t time_wall_us(void)
{
    return read_clock(CLOCK_REALTIME) + atomic_load_explicit(&wall_shift, memory_order_relaxed);
}

void time_shift_us(int64_t wall, int64_t mono)
{
    atomic_fetch_add(&wall_shift, wall);
    atomic_fetch_add(&mono_shift, mono);
}

struct civil {
    int64_t year;
    int month, day, hour, minute, second, micro;
};

#define DAY_US (86400 * (int64_t)1000000)
/* 0001-01-01 and 9999-12-31, last microsecond: what four digits of a year can say. */
#define WALL_MIN (-62135596800 * (int64_t)1000000)
#define WALL_MAX (253402300800 * (int64_t)1000000 - 1)

static bool leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

static int month_days(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && leap(year));
}

/* Days from 1970-01-01 to the first of January of `year` (>= 1). */
static int64_t days_to_year(int64_t year)
{
    int64_t y = year - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 - 719162;
}

static struct civil civil_of(int64_t us)
{
    us = us < WALL_MIN ? WALL_MIN : us > WALL_MAX ? WALL_MAX : us;
    int64_t day = us / DAY_US, rest = us % DAY_US;
    if (rest < 0) {
        rest += DAY_US;
        day--;
    }
    int64_t year = 1970 + day / 366; /* a guess some years off at most */
    while (days_to_year(year) > day) {
        year--;
    }
    while (days_to_year(year + 1) <= day) {
        year++;
    }
    struct civil c = {.year = year, .month = 1};
    day -= days_to_year(year);
    while (day >= month_days(year, c.month)) {
        day -= month_days(year, c.month++);
    }
    c.day = (int)day + 1;
    c.micro = (int)(rest % 1000000);
    int64_t seconds = rest / 1000000;
    c.hour = (int)(seconds / 3600);
    c.minute = (int)(seconds / 60 % 60);
    c.second = (int)(seconds % 60);
    return c;
}

/* Decimal digits of a number >= 0, `width` of them, leading zeros. By hand: each message prints a dozen times. */
static char *digits(char *out, int64_t v, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        out[i] = (char)('0' + v % 10);
        v /= 10;
    }
    return out + width;
}

static const char *print(int64_t wall_us, char *out, char between, bool always_fraction)
{
    struct civil c = civil_of(wall_us);
    char *p = digits(out, c.year, 4);
    *p++ = '-';
    p = digits(p, c.month, 2);
    *p++ = '-';
    p = digits(p, c.day, 2);
    *p++ = between;
    p = digits(p, c.hour, 2);
    *p++ = ':';
    p = digits(p, c.minute, 2);
    *p++ = ':';
    p = digits(p, c.second, 2);
    if (always_fraction || c.micro) {
        *p++ = '.';
        p = digits(p, c.micro, 6);
    }
    *p = '\0';
    return out;
}

const char *time_iso(int64_t wall_us, char *out)
{
    return print(wall_us, out, 'T', false);
}

const char *time_sql(int64_t wall_us, char *out)
{
    return print(wall_us, out, ' ', true);
}

/* Takes exactly `digits` digits off s. */
static bool take_number(struct str *s, size_t digits, int *out)
{
    if (s->n < digits) {
        return false;
    }
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        if (s->p[i] < '0' || s->p[i] > '9') {
            return false;
        }
        *out = *out * 10 + (s->p[i] - '0');
    }
    *s = str_sub(*s, digits, s->n);
    return true;
}

static bool take_char(struct str *s, const char *any_of, char *out)
{
    if (s->n == 0 || s->p[0] == '\0' || !strchr(any_of, s->p[0])) {
        return false;
    }
    *out = s->p[0];
    *s = str_sub(*s, 1, s->n);
    return true;
}

/* ".digits": microseconds, what is finer is dropped. */
static bool take_fraction(struct str *s, int *micro)
{
    int scale = 100000, digit;
    size_t digits = 0;
    for (; take_number(s, 1, &digit); digits++) {
        *micro += digit * scale;
        scale /= 10;
    }
    return digits > 0;
}

/* The end of the text: nothing, 'Z', ±HH:MM, ±HHMM or ±HH. */
static bool take_offset(struct str *s, int64_t *offset_s)
{
    char c;
    int hours, minutes = 0;
    *offset_s = 0;
    if (s->n == 0) {
        return true;
    }
    if (take_char(s, "Zz", &c)) {
        return s->n == 0;
    }
    char sign;
    if (!take_char(s, "+-", &sign) || !take_number(s, 2, &hours)) {
        return false;
    }
    if (s->n && ((void)take_char(s, ":", &c), !take_number(s, 2, &minutes))) {
        return false;
    }
    if (s->n || hours > 23 || minutes > 59) {
        return false;
    }
    *offset_s = (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool time_parse(struct str s, int64_t *wall_us)
{
    struct civil t = {0};
    int year;
    char c;
    if (!take_number(&s, 4, &year) || !take_char(&s, "-", &c) || !take_number(&s, 2, &t.month) ||
        !take_char(&s, "-", &c) || !take_number(&s, 2, &t.day) || !take_char(&s, "T ", &c) ||
        !take_number(&s, 2, &t.hour) || !take_char(&s, ":", &c) || !take_number(&s, 2, &t.minute) ||
        !take_char(&s, ":", &c) || !take_number(&s, 2, &t.second)) {
        return false;
    }
    int64_t offset_s;
    if ((take_char(&s, ".", &c) && !take_fraction(&s, &t.micro)) || !take_offset(&s, &offset_s)) {
        return false;
    }
    if (year < 1 || t.month < 1 || t.month > 12 || t.day < 1 || t.day > month_days(year, t.month) ||
        t.hour > 23 || t.minute > 59 || t.second > 59) {
        return false;
    }
    int64_t day = days_to_year(year) + t.day - 1;
    for (int m = 1; m < t.month; m++) {
        day += month_days(year, m);
    }
    *wall_us = day * DAY_US +
               ((t.hour * 60 + t.minute) * (int64_t)60 + t.second - offset_s) * 1000000 + t.micro;
    return true;
}
