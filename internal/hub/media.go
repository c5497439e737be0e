package hub

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// ServeMedia serves a picture to a bot that got its URL. The URL is the secret: anyone who
// has it can fetch the picture until it expires.
func (h *Hub) ServeMedia(w http.ResponseWriter, r *http.Request) {
	p, err := h.Store.Media.Get(r.Context(), seal.Hash(r.PathValue("token")), time.Now())
	if errors.Is(err, store.ErrNotFound) {
		http.Error(w, "there is no such picture, or not any more", http.StatusNotFound)
		return
	}
	if err != nil {
		if r.Context().Err() == nil {
			h.Logger.ErrorContext(r.Context(), "a picture was not found", "error", err)
		}
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	}
	header := w.Header()
	header.Set("Content-Type", p.MIME)
	header.Set("Content-Length", strconv.Itoa(len(p.Data)))
	header.Set("Cache-Control", "private, no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Referrer-Policy", "no-referrer")
	w.Write(p.Data) //nolint:errcheck // the reader has gone
}

// storeImages stores a turn's pictures for bots that cannot get the bytes directly: bots
// on another instance, and bots that fetch pictures by URL.
func (h *Hub) storeImages(ctx context.Context, turn *talk.Turn) error {
	for _, im := range turn.Images() {
		if im.Media != "" || len(im.Data) == 0 {
			continue
		}
		token := seal.NewToken(16)
		now := time.Now()
		if err := h.Store.Media.Add(ctx, seal.Hash(token), store.Picture{MIME: im.MIME, Data: im.Data,
			Expires: now.Add(h.MediaTTL)}, now); err != nil {
			return err
		}
		im.Media = token
	}
	return nil
}

// loadImages loads the bytes of pictures that came from another instance.
func (h *Hub) loadImages(ctx context.Context, turn *talk.Turn) error {
	for _, im := range turn.Images() {
		if len(im.Data) > 0 || im.Media == "" {
			continue
		}
		p, err := h.Store.Media.Get(ctx, seal.Hash(im.Media), time.Now())
		if err != nil {
			return err
		}
		im.Data = p.Data
	}
	return nil
}
