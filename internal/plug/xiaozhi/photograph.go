package xiaozhi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// shot is a photo that somebody waits for.
type shot struct {
	caller tool.Caller
	mu     sync.Mutex
	jpeg   []byte
}

var (
	errNobodySees = errors.New("no bot answers this board")
	sayAttached   = talk.Say{Zh: "照片已附在结果里。", En: "The photo is attached to this result."}
)

// photograph has a board take a photo. What the board's bot sees in it, the board
// returns; the photo itself is added for callers who can look for themselves.
func (b *Board) photograph(ctx context.Context, l *line, call *tool.Call) (*tool.Result, error) {
	b.mu.Lock()
	if b.shot != nil {
		b.mu.Unlock()
		return nil, tool.Fail(tool.Busy, "The board is taking a photo already. Try again when it has.", nil)
	}
	s := &shot{caller: call.Caller}
	b.shot = s
	stale := time.Since(l.told) > photoToken/2
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.shot = nil
		b.mu.Unlock()
	}()
	if call.Caller.Bot == 0 || b.conversation() == nil { // or whoever talks with the board wants it
		defer b.heardBy(call.Caller, heardPhoto).over()
	}
	if stale {
		b.start(ctx, l)
	}
	res, err := l.remote.Call(ctx, call)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jpeg == nil {
		return res, nil
	}
	return withPicture(res, s.jpeg), nil
}

// withPicture adds a photo to what a board returned.
func withPicture(res *tool.Result, jpeg []byte) *tool.Result {
	var blocks []json.RawMessage
	if json.Unmarshal(res.Content, &blocks) != nil {
		return res
	}
	picture, _ := json.Marshal(map[string]string{"type": "image", "data": base64.StdEncoding.EncodeToString(jpeg), "mimeType": "image/jpeg"}) // texts
	content, err := json.Marshal(append(blocks, picture))
	if err != nil {
		return res
	}
	with := *res
	with.Content = content
	return &with
}

// Taken is what is said about a photo that a board has sent; see [PhotosOptions]. If
// somebody waits for the photo, it is put by for them. The board's bot is asked what
// is to be seen, unless a bot is the one who waits: it looks for itself.
func (h *Boards) Taken(ctx context.Context, p Photo) (string, error) {
	b := h.find(p.Device.Number)
	if b == nil {
		return "", errRevoked
	}
	b.mu.Lock()
	s, d := b.shot, b.device
	b.mu.Unlock()
	b.tells(NoticePhoto, map[string]int{"bytes": len(p.JPEG)})
	lang := talk.ParseLang(d.Language, h.Lang)
	asked := tool.Caller{Depth: -1} // the board asks by itself
	if s != nil {
		s.mu.Lock()
		s.jpeg = p.JPEG
		s.mu.Unlock()
		if s.caller.Bot != 0 {
			return sayAttached.In(lang), nil
		}
		asked = s.caller
	}
	said, err := h.look(ctx, d, p, lang, asked)
	if err != nil && s != nil {
		if !errors.Is(err, errNobodySees) {
			h.Logger.Warn("the bot of a board did not say what it sees", "device", d.Number, "bot", d.Bot, "error", err)
		}
		return sayAttached.In(lang), nil // whoever waits has the photo
	}
	return said, err
}

// look asks the board's bot, on behalf of who had the photo taken.
func (h *Boards) look(ctx context.Context, d store.Device, p Photo, lang talk.Lang, asked tool.Caller) (string, error) {
	if d.Bot == 0 {
		return "", errNobodySees
	}
	turn := turnOf(d, lang)
	turn.Depth, turn.Bound = asked.Depth+1, asked.Bound
	turn.Conversation = "" // it is about this photo alone
	turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: "image/jpeg", Data: p.JPEG}})
	if q := strings.TrimSpace(p.Question); q != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: q})
	}
	var said strings.Builder
	err := h.Hub.Answer(ctx, turn, func(e talk.Event) error {
		if e.Kind == talk.KindText {
			said.WriteString(e.Text)
		}
		return nil
	})
	return said.String(), err
}
