#!/usr/bin/env bash
# ffmpeg with several threads: pictures and sound are made, filtered, encoded in several ways and decoded again. The sums of all
# frames must be those without Freehold.
. "$(dirname "$0")/common.sh"
need ffmpeg ffmpeg
active ffmpeg -hide_banner -version
seconds=2
[ "$long" != long ] || seconds=60
run() { timeout 900 ffmpeg -nostdin -hide_banner -loglevel error -threads 4 -fflags +bitexact "$@"; }
# coded NAME OPTION...: encodes with these options, and writes the sums of what is decoded then.
coded() {
    local name=$1
    shift
    run -f lavfi -i "testsrc2=s=640x360:r=25:d=$seconds" -f lavfi -i "sine=440:d=$seconds" \
        -vf "scale=480:270,hue=s=0.7,boxblur=2" -af "aecho=0.8:0.9:40:0.3" -flags +bitexact "$@" -y "$work/$name.mkv"
    run -i "$work/$name.mkv" -f framemd5 -
}
both() {
    local name=$1
    coded "$@" >"$work/$name.without" 2>&1 || { tail -n 3 "$work/$name.without"; skip_part "$name: fails without Freehold"; return; }
    (export LD_PRELOAD=$library; coded "$@") >"$work/$name.with" 2>&1 || { tail "$work/$name.with"; die "$name"; }
    cmp "$work/$name.without" "$work/$name.with" || die "$name: other frames"
    say "same frames: $name ($(wc -l <"$work/$name.with") lines)"
}
both mpeg4 -c:v mpeg4 -q:v 4 -c:a flac
both ffv1 -c:v ffv1 -c:a pcm_s16le
both mjpeg -c:v mjpeg -c:a mp2
both x264 -c:v libx264 -preset fast -c:a aac
both vp9 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -c:a libvorbis
