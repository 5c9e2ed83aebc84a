#!/usr/bin/env bash
# GStreamer: pipelines of several threads that pass buffers on. What they write must be what they write without Freehold.
. "$(dirname "$0")/common.sh"
need gst-launch-1.0 gstreamer1.0-tools
export GST_REGISTRY=$work/registry GST_REGISTRY_FORK=no
active gst-launch-1.0 --version
frames=100
[ "$long" != long ] || frames=3000
# pipeline NAME PIPELINE: what it writes to its file is compared.
pipeline() {
    local name=$1 words
    read -ra words <<<"$2"
    for side in without with; do
        (
            [ $side = without ] || export LD_PRELOAD=$library
            timeout 600 gst-launch-1.0 -q "${words[@]}" ! filesink "location=$work/$name.$side.raw"
        ) >"$work/$name.log" 2>&1 || { [ $side = with ] || { skip_part "$name: fails without Freehold"; return; }
            tail -n 5 "$work/$name.log"; die "$name"; }
    done
    cmp "$work/$name.without.raw" "$work/$name.with.raw" || die "$name: other bytes"
    say "same bytes: $name ($(stat -c %s "$work/$name.with.raw"))"
}
source="videotestsrc num-buffers=$frames pattern=ball ! video/x-raw,width=320,height=240"
pipeline scaled "$source ! queue ! videoscale ! video/x-raw,width=200,height=100 ! queue ! videoconvert ! video/x-raw,format=RGB"
pipeline jpeg "$source ! videoconvert ! queue ! jpegenc ! queue ! jpegdec ! videoconvert ! video/x-raw,format=I420"
pipeline png "$source ! videoconvert ! queue ! pngenc"
pipeline sound "audiotestsrc num-buffers=$frames wave=ticks ! queue ! audioresample ! audio/x-raw,rate=22050 ! audioconvert ! wavenc"
pipeline flac "audiotestsrc num-buffers=$frames ! queue ! audioconvert ! flacenc ! flacdec ! audioconvert ! audio/x-raw,format=S16LE"
