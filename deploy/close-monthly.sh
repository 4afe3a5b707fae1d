#!/bin/sh
# Closes last month, over and over: closing twice changes nothing, and an account that was held is issued by the round
# after somebody has answered its questions.
#
#   GPU_BILLING_CLOSE_DAY       the day of the month from which last month is closed (default 3: late facts come first)
#   GPU_BILLING_CLOSE_TIME_ZONE whose days are meant (default Asia/Shanghai, the billing time zone)
#   GPU_BILLING_CLOSE_EVERY_S   seconds between rounds (default 3600)
#   GPU_BILLING_CLOSE_STAMP     a file that is touched after each round that could be done, for a health check
set -u
every=${GPU_BILLING_CLOSE_EVERY_S:-3600}
stamp=${GPU_BILLING_CLOSE_STAMP:-/tmp/close-monthly.done}
export TZ="${GPU_BILLING_CLOSE_TIME_ZONE:-Asia/Shanghai}"

waiting=
trap 'kill "$waiting" 2>/dev/null; exit 0' TERM INT  # sh takes a signal when its command has ended: a close is finished

while :; do
    day=$(date +%d)
    month=$(date --date="$(date +%Y-%m-15) -1 month" +%Y-%m)
    status=0
    if [ "${day#0}" -ge "${GPU_BILLING_CLOSE_DAY:-3}" ]; then
        gpu-billing close "$month" || status=$?
    fi
    # 1 is done too: accounts are held and listed. 2 could not be done; the stamp grows old and the check fails.
    [ "$status" -gt 1 ] || touch "$stamp"
    sleep "$every" &
    waiting=$!
    wait "$waiting"
done
