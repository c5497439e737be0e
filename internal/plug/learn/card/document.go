package card

import (
	"html"
	"strconv"
	"strings"
)

// Policy is the Content-Security-Policy of a card's document: whatever a cleaner overlooked, no
// script runs and no other host is asked. media is the source of pictures, sounds and fonts, such
// as https://example.com/learn/media/ (CSP3 §2.3.1).
func Policy(media string) string {
	return "default-src 'none'; style-src 'unsafe-inline'; img-src " + media + " data:; media-src " + media +
		"; font-src " + media + "; form-action 'none'; base-uri 'none'; frame-ancestors 'self'; sandbox allow-same-origin"
}

// baseCSS is before the style sheet of a note type. The classes nightMode and night_mode are those
// that Anki sets when it is dark (ts/reviewer/reviewer.scss).
const baseCSS = `
html{overflow-wrap:break-word}
body{margin:12px;font-family:system-ui,sans-serif;line-height:1.5}
#qa{display:flow-root}
img,video{max-width:100%;height:auto}
audio{max-width:100%;vertical-align:middle}
.covered{position:relative;display:inline-block}
.covered>img{display:block}
.shape{position:absolute;box-sizing:border-box}
.shape-cloze{background:#ff8e8e;border:1px solid #212121}
.shape-cloze-inactive{background:#ffeba2;border:1px solid #212121}
.shape-cloze-highlight{border:2px solid #ff8e8e}
.shape-text{background:#fff;color:#000;padding:2px}
.hint summary{cursor:pointer}
.tex{white-space:pre-wrap}
#typeans{font-size:1.1em}
.card.nightMode{background-color:#2c2c2c;color:#fcfcfc}
.cloze{font-weight:bold}
`

// Document returns one side of a card as a document, for a frame of its own. ord is which of the
// note's cards it is, as some style sheets ask for that; night tells it to be dark.
func (s *Shown) Document(answer bool, ord int, night bool) string {
	body := s.Front
	if answer {
		body = s.Back
	}
	class := "card card" + strconv.Itoa(ord+1)
	if night {
		class += " nightMode night_mode"
	}
	var b strings.Builder
	b.WriteString(`<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">`)
	b.WriteString("<style>" + baseCSS + "</style><style>" + s.CSS + "</style></head>")
	b.WriteString(`<body class="` + html.EscapeString(class) + `"><div id="qa">` + body + "</div></body></html>\n")
	return b.String()
}
