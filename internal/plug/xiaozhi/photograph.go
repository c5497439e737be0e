package xiaozhi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// pendingPhoto is a photo that a tool call waits for.
type pendingPhoto struct {
	caller tool.Caller
	plain  bool // nobody describes it
	mu     sync.Mutex
	jpeg   []byte
}

var (
	errNoVisionBot = errors.New("no bot answers this board")
	errNoCamera    = errors.New("the board did not send a photo")
	// photoQuestion are the arguments of the tool, whose answer is not used.
	photoQuestion = json.RawMessage(`{"question":"-"}`)
	msgAttached   = i18n.Message("The photo is attached to this result.")
)

// photograph has the board take a photo. The result is what the board returns, which is the bot's
// description, with the photo added for callers that can see images.
func (b *Board) photograph(ctx context.Context, l *connection, call *tool.Call) (*tool.Result, error) {
	res, jpeg, err := b.callCamera(ctx, l, call)
	if err != nil || jpeg == nil {
		return res, err
	}
	return withPictures(res, jpeg), nil
}

// takePhoto has the board take a photo for its bot.
func (b *Board) takePhoto(ctx context.Context) ([]byte, error) {
	l, camera := b.connection(), b.ownTool(remote.TakesPhoto)
	if l == nil || camera == "" {
		return nil, errNoCamera
	}
	_, jpeg, err := b.callCamera(ctx, l, &tool.Call{Tool: camera, Args: photoQuestion,
		Caller: tool.Caller{Bot: b.current().Bot}})
	if err == nil && jpeg == nil {
		err = errNoCamera
	}
	return jpeg, err
}

// callCamera calls the tool of a board that takes a photo, and returns its result and the photo,
// which is nil if there is none.
func (b *Board) callCamera(ctx context.Context, l *connection, call *tool.Call) (_ *tool.Result, jpeg []byte, _ error) {
	if call.Caller.Bot == 0 || b.conversation() == nil { // otherwise the person at the board asked for it
		defer b.addListener(call.Caller, listenPhoto).stop()
	}
	return b.callCameraUnseen(ctx, l, &pendingPhoto{caller: call.Caller}, call)
}

// callCameraUnseen is callCamera without a [Listener].
func (b *Board) callCameraUnseen(ctx context.Context, l *connection, s *pendingPhoto,
	call *tool.Call) (_ *tool.Result, jpeg []byte, _ error) {
	b.mu.Lock()
	if b.pendingPhoto != nil {
		b.mu.Unlock()
		return nil, nil, tool.Fail(tool.Busy, "The board is taking a photo already. Try again when it has.", nil)
	}
	b.pendingPhoto = s
	stale := time.Since(l.visionSentAt) > photoTokenTTL/2
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.pendingPhoto = nil
		b.mu.Unlock()
	}()
	if stale {
		b.initializeTools(ctx, l)
	}
	res, err := l.remote.Call(ctx, call)
	s.mu.Lock()
	defer s.mu.Unlock()
	return res, s.jpeg, err
}

// withPictures adds pictures to a result.
func withPictures(res *tool.Result, jpegs ...[]byte) *tool.Result {
	var blocks []json.RawMessage
	if json.Unmarshal(res.Content, &blocks) != nil {
		return res
	}
	for _, jpeg := range jpegs {
		picture, _ := json.Marshal(map[string]string{"type": "image", "mimeType": "image/jpeg",
			"data": base64.StdEncoding.EncodeToString(jpeg)}) // of strings
		blocks = append(blocks, picture)
	}
	content, err := json.Marshal(blocks)
	if err != nil {
		return res
	}
	with := *res
	with.Content = content
	return &with
}

// DescribePhoto implements [PhotosOptions.Describe]. If a tool call waits for the photo, it is
// added to its result. The board's bot describes the photo, unless a bot made the call: that bot
// sees the photo itself.
func (h *Boards) DescribePhoto(ctx context.Context, p Photo) (string, error) {
	b := h.find(p.Device.Number)
	if b == nil {
		return "", errRevoked
	}
	b.mu.Lock()
	s, d := b.pendingPhoto, b.device
	b.mu.Unlock()
	b.publishNotice(NoticePhoto, map[string]int{"bytes": len(p.JPEG)})
	lang := i18n.ParseLang(d.Language, h.Lang)
	asked := tool.Caller{Depth: -1} // no tool call: the turn has depth 0
	if s != nil {
		s.mu.Lock()
		s.jpeg = p.JPEG
		s.mu.Unlock()
		if s.plain || s.caller.Bot != 0 {
			return msgAttached.In(lang), nil
		}
		asked = s.caller
	}
	said, err := h.askAboutPhoto(ctx, d, p, lang, asked)
	if err != nil && s != nil {
		if !errors.Is(err, errNoVisionBot) {
			h.Logger.Warn("the bot of a board did not say what it sees", "device", d.Number, "bot", d.Bot, "error", err)
		}
		return msgAttached.In(lang), nil // the caller gets the photo
	}
	return said, err
}

// askAboutPhoto has the board's bot describe a photo, with the depth and rules of the caller.
func (h *Boards) askAboutPhoto(ctx context.Context, d store.Device, p Photo, lang i18n.Lang,
	asked tool.Caller) (string, error) {
	if d.Bot == 0 {
		return "", errNoVisionBot
	}
	turn := newTurn(d, lang)
	turn.Depth, turn.KeyRules = asked.Depth+1, asked.KeyRules
	turn.Conversation = "" // a conversation of its own
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
