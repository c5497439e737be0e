package board

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// ServeMedia serves a picture to a bot that was given its address. The address
// is the secret: whoever has it may look, for as long as the picture is kept.
func (b *Board) ServeMedia(w http.ResponseWriter, r *http.Request) {
	p, err := b.Store.Media.Get(r.Context(), seal.Hash(r.PathValue("token")), time.Now())
	if errors.Is(err, store.ErrNotFound) {
		http.Error(w, "there is no such picture, or not any more", http.StatusNotFound)
		return
	}
	if err != nil {
		if r.Context().Err() == nil {
			b.Logger.ErrorContext(r.Context(), "a picture was not found", "error", err)
		}
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", p.MIME)
	h.Set("Content-Length", strconv.Itoa(len(p.Data)))
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Referrer-Policy", "no-referrer")
	w.Write(p.Data) //nolint:errcheck // the reader has gone
}
