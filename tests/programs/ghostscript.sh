#!/usr/bin/env bash
# Ghostscript: pages with paths, text and shadings are rendered, and the pictures must be the same.
. "$(dirname "$0")/common.sh"
need gs ghostscript
active gs -q -dBATCH -dNOPAUSE -sDEVICE=nullpage -c quit
cat >"$work/pages.ps" <<'PS'
%!PS
/Helvetica findfont 9 scalefont setfont
1 1 4 { /page exch def
  0 1 199 { /i exch def
    gsave i 3 mul 20 add i page mul 7 mod 90 mul 20 add translate i page mul 17 mod 20 mul rotate
    i 200 div page 4 div 0.5 setrgbcolor 0 0 moveto 60 i 40 mod 30 60 20 90 curveto closepath fill
    0 setgray 0 0 moveto (line ) show i 10 string cvs show grestore } for
  << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [0 0 600 800] /Extend [true true]
     /Function << /FunctionType 2 /Domain [0 1] /C0 [1 0 0] /C1 [0 0 1] /N 1 >> >> gsave 100 100 200 200 rectclip shfill grestore
  showpage } for
PS
render() { gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=png16m -r72 -dNumRenderingThreads=4 -dMaxBitmap=100000 -o "$1" "$work/pages.ps"; }
export -f render
render "$work/without%d.png"
(export LD_PRELOAD=$library; render "$work/with%d.png") || die "gs"
for page in 1 2 3 4; do
    cmp "$work/without$page.png" "$work/with$page.png" || die "page $page looks different"
done
say "4 pages, the same pictures"
