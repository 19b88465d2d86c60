/* google.protobuf.Timestamp and Duration as datetime, timedelta or nanoseconds. */
#include "objects/objects.h"

#include <datetime.h>

enum { BILLION = 1000000000 };
static const int64_t day_seconds = 86400;
/* 0001-01-01 and 9999-12-31T23:59:59 in seconds since 1970; ten thousand years. */
static const int64_t least_timestamp = -62135596800, most_timestamp = 253402300799,
                     most_duration = 315576000000;

int fb_codec_time_import(void) {
    PyDateTime_IMPORT;
    return PyDateTimeAPI ? 0 : -1;
}

/* Return the days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here,
   so the leap day is the last day. */
static int64_t days_of(int64_t year, unsigned month, unsigned day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    unsigned of_era = (unsigned)(year - era * 400);
    unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int64_t days, int *year, int *month, int *day) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    unsigned of_era = (unsigned)(days - era * 146097);
    unsigned years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * years + years / 4 - years / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * from_march + 2) / 5 + 1);
    *month = (int)(from_march < 10 ? from_march + 3 : from_march - 9);
    *year = (int)((int64_t)years + era * 400 + (*month <= 2));
}

bool fb_codec_time_in_range(bool duration, int64_t seconds, int64_t nanoseconds) {
    if (!duration)
        return seconds >= least_timestamp && seconds <= most_timestamp && nanoseconds >= 0 &&
               nanoseconds < BILLION;
    if (seconds < -most_duration || seconds > most_duration || nanoseconds <= -BILLION ||
        nanoseconds >= BILLION)
        return false;
    return seconds == 0 || nanoseconds == 0 || (seconds < 0) == (nanoseconds < 0);
}

/* Normalize the nanoseconds. Those of a Timestamp count forward from its seconds; those of a
   Duration have its sign. */
static int settle(bool duration, int64_t seconds, int64_t nanoseconds, int64_t *out_seconds,
                  int32_t *out_nanoseconds, const char **problem) {
    if (duration && seconds < 0 && nanoseconds > 0) {
        seconds++;
        nanoseconds -= BILLION;
    }
    *out_seconds = seconds;
    *out_nanoseconds = (int32_t)nanoseconds;
    if (fb_codec_time_in_range(duration, seconds, nanoseconds)) return 0;
    *problem = duration ? "a duration beyond ten thousand years"
                        : "a time before the year 1 or after 9999";
    return -1;
}

static int of_number(PyObject *value, bool duration, int64_t *seconds, int32_t *nanoseconds,
                     const char **problem) {
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) return 1;
    int64_t whole = number / BILLION, rest = number % BILLION;
    if (rest < 0) {
        rest += BILLION;
        whole--;
    }
    return settle(duration, whole, rest, seconds, nanoseconds, problem);
}

int fb_codec_time_of(PyObject *value, bool duration, int64_t *seconds, int32_t *nanoseconds,
                     const char **problem) {
    if (PyLong_CheckExact(value)) return of_number(value, duration, seconds, nanoseconds, problem);
    if (!duration && PyDateTime_CheckExact(value)) {
        PyObject *zone = PyDateTime_DATE_GET_TZINFO(value);
        if (zone != Py_None && zone != PyDateTime_TimeZone_UTC) return 1;
        int64_t days = days_of(PyDateTime_GET_YEAR(value), (unsigned)PyDateTime_GET_MONTH(value),
                               (unsigned)PyDateTime_GET_DAY(value));
        int of_day =
            (PyDateTime_DATE_GET_HOUR(value) * 60 + PyDateTime_DATE_GET_MINUTE(value)) * 60 +
            PyDateTime_DATE_GET_SECOND(value);
        return settle(false, days * day_seconds + of_day,
                      PyDateTime_DATE_GET_MICROSECOND(value) * (int64_t)1000, seconds, nanoseconds,
                      problem);
    }
    if (duration && PyDelta_CheckExact(value)) {
        int64_t whole =
            PyDateTime_DELTA_GET_DAYS(value) * day_seconds + PyDateTime_DELTA_GET_SECONDS(value);
        return settle(true, whole, PyDateTime_DELTA_GET_MICROSECONDS(value) * (int64_t)1000,
                      seconds, nanoseconds, problem);
    }
    return 1;
}

static PyObject *new_number(int64_t seconds, int32_t nanoseconds) {
    if (seconds > -9000000000 && seconds < 9000000000)
        return PyLong_FromLongLong(seconds * BILLION + nanoseconds);
    PyObject *number = NULL, *whole = PyLong_FromLongLong(seconds),
             *billion = PyLong_FromLong(BILLION), *rest = PyLong_FromLong(nanoseconds);
    PyObject *product = whole && billion ? PyNumber_Multiply(whole, billion) : NULL;
    if (product && rest) number = PyNumber_Add(product, rest);
    Py_XDECREF(whole);
    Py_XDECREF(billion);
    Py_XDECREF(rest);
    Py_XDECREF(product);
    return number;
}

PyObject *fb_codec_time_new(bool duration, bool number, int64_t seconds, int32_t nanoseconds) {
    int year, month, day;
    if (number) return new_number(seconds, nanoseconds);
    if (!fb_codec_time_in_range(duration, seconds, nanoseconds)) return NULL;
    if (duration) {
        int64_t days = seconds / day_seconds;
        return PyDateTimeAPI->Delta_FromDelta((int)days, (int)(seconds - days * day_seconds),
                                              nanoseconds / 1000, 1, PyDateTimeAPI->DeltaType);
    }
    /* since the year 1, so not negative */
    int64_t days = (seconds - least_timestamp) / day_seconds;
    int of_day = (int)(seconds - least_timestamp - days * day_seconds);
    date_of(days + least_timestamp / day_seconds, &year, &month, &day);
    return PyDateTimeAPI->DateTime_FromDateAndTime(
        year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60, nanoseconds / 1000,
        PyDateTime_TimeZone_UTC, PyDateTimeAPI->DateTimeType);
}
