package learn

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	notecard "patchbay/internal/plug/learn/card"
	"patchbay/internal/plug/learn/markdown"
	"patchbay/internal/store"
)

// plainHost matches a host as a Content-Security-Policy may name it (CSP3 § 2.3.1).
var plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

// mediaSource returns where the frame of a card may load from: the media of this server and no
// other page of it, if the browser says how it reaches the server; else this server.
func mediaSource(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil || r.Header.Get("Sec-Fetch-Site") != "same-origin" || u.Scheme != "http" && u.Scheme != "https" ||
		!plainHost.MatchString(u.Host) {
		return "'self'"
	}
	return u.Scheme + "://" + u.Host + notecard.MediaPath
}

// cardPage sends one side of a card as a document for a frame: in another document its style
// changes nothing around it, and no script runs.
func (p *pages) cardPage(v *page.Visit) {
	e, err := p.Points.Get(v.Context(), personID(v), v.PathValue("point"))
	if err != nil {
		v.Fail(learnError(err))
		return
	}
	view, err := p.Points.Card(v.Context(), &e.Point, notecard.MediaPath)
	if err != nil {
		v.Fail(err)
		return
	}
	sendCard(v, view, v.FormValue("side") == "back")
}

func sendCard(v *page.Visit, view *learning.CardView, answer bool) {
	h := v.W.Header()
	h.Set("Content-Security-Policy", notecard.Policy(mediaSource(v.Request)))
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Content-Type", "text/html; charset=utf-8")
	v.W.Write([]byte(view.Document(answer, view.Ord, v.Theme == "dark"))) //nolint:errcheck // the browser may have gone
}

// mediaPolicy is the Content-Security-Policy of files: one that is opened by its address can do
// nothing, whatever it is.
const mediaPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// shownTypes matches types that browsers show; other files are only downloaded.
var shownTypes = regexp.MustCompile(`^(image/(png|jpeg|gif|webp|avif|bmp|svg\+xml)|audio/[a-z0-9+.-]+|video/[a-z0-9+.-]+|font/[a-z0-9+.-]+)$`)

// media sends a picture or sound.
func (p *pages) media(v *page.Visit) {
	m, data, err := p.Points.Media(v.Context(), personID(v), v.PathValue("name"))
	if err != nil {
		v.Fail(err)
		return
	}
	WriteMedia(v.W, v.Request, m.Type, m.Hash, data)
}

// mediaVersion tells the contents apart that a name of a picture or sound may have in the course of
// time.
func mediaVersion(hash string) string { return hash[:min(len(hash), 16)] }

// mediaVersionAddress returns an address of a file that browsers need not ask for again, as it has
// another one when its content changes.
func mediaVersionAddress(m *store.MediaFile) string {
	return notecard.MediaPath + url.PathEscape(m.Name) + "?v=" + mediaVersion(m.Hash)
}

// WriteMedia responds with a file of a person's media.
func WriteMedia(w http.ResponseWriter, r *http.Request, kind, hash string, data []byte) {
	h := w.Header()
	if !shownTypes.MatchString(kind) {
		kind = "application/octet-stream"
		h.Set("Content-Disposition", "attachment")
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", mediaPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Get("v") == mediaVersion(hash) {
		// This address has this content for ever; another session gets it from the server.
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
		h.Set("Vary", "Cookie")
	} else {
		h.Set("Cache-Control", "private, no-cache") // it is kept, and asked for again each time
	}
	h.Set("ETag", `"`+hash+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// framePath returns the address of one side of a point's card.
func framePath(id, side string) string { return pointPath(id) + "/card?side=" + side }

// shown returns how a point is shown; its text if that fails.
func (p *pages) shown(v *page.Visit, e *learning.Entry) (*learning.CardView, error) {
	return p.Points.Card(v.Context(), &e.Point, notecard.MediaPath)
}

// comparedTexts returns the words that a recall is compared with, and those of the recall.
func comparedTexts(c *card) (answer, recall string) {
	if c.View != nil && strings.TrimSpace(c.View.Typed) != "" {
		return c.View.Typed, c.Recall
	}
	return learning.HiddenWords(markdown.Plain(c.Entry.Question), markdown.Plain(c.Entry.Answer), c.Recall)
}

// sideName returns what a side is called.
func sideName(side string) i18n.Message {
	if side == "back" {
		return msgAnswer
	}
	return msgQuestion
}
