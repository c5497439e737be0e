package xiaozhi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/words"
)

const (
	// greetDelay is how long a board that was woken waits before it greets: the person may ask at
	// once.
	greetDelay = 600 * time.Millisecond
	// warmTimeout limits how long connections to engines are opened in advance.
	warmTimeout = 5 * time.Second
	// A conversation ends after so much silence when the answer was short, such as “The light is
	// on.”, or longer. After a question it lasts as long as the server's silence setting says.
	quietAfterShort, quietAfterLong = 6 * time.Second, 20 * time.Second
	// maxShort limits a short answer, in words or ideograms.
	maxShort = 10
)

const msgNoPhoto = i18n.Message("The camera did not take a photo.")

// toolVolume sets the volume of a board's speaker (xiaozhi-esp32 main/mcp_server.cc,
// McpServer::AddCommonTools).
const toolVolume = "self.audio_speaker.set_volume"

// speaks is a [Voice] that has speech engines.
type speaks interface {
	engines(store.Device) *engine.Chain
}

func (v Dialogue) engines(d store.Device) *engine.Chain { return v.Engines(d) }

func (v Duplex) engines(d store.Device) *engine.Chain {
	if s, ok := v.Otherwise.(speaks); ok {
		return s.engines(d)
	}
	return &engine.Chain{}
}

// warm opens connections to the engines in the background, for what the person says next.
func (d *dialogue) warm() {
	if d.warming.Swap(true) {
		return
	}
	chain, s := d.current()
	if !d.c.board.boards.spawn(func() {
		defer d.warming.Store(false)
		ctx, cancel := context.WithTimeout(d.ctx, warmTimeout)
		defer cancel()
		chain.Warm(ctx)
		d.c.learnFiller(ctx, chain, s)
	}) {
		d.warming.Store(false)
	}
}

// greetWhenQuiet greets the person who has woken the board, unless they ask at once.
func (d *dialogue) greetWhenQuiet(now time.Time) {
	switch {
	case d.greet.IsZero():
		return
	case d.asking != nil || d.mode == wire.ModeManual:
		d.greet = time.Time{}
		return
	case now.Before(d.greet):
		return
	}
	d.greet = time.Time{}
	if _, s := d.current(); s.Greeting != "" {
		ctx, cancel := context.WithCancelCause(d.ctx)
		d.reply(ctx, cancel, func(r *reply) { r.say(s.Greeting) })
	}
}

// setVolume sets the volume of the board, unless it has set it already.
func (d *dialogue) setVolume(volume int) {
	l := d.c.board.connection()
	if volume == d.volume || volume == 0 || l == nil || d.c.board.ownTool(isVolume) == "" {
		return
	}
	d.volume = volume
	d.c.board.boards.spawn(func() { // otherwise the server stops
		args, _ := json.Marshal(map[string]int{"volume": volume}) // numbers
		if _, err := l.remote.Call(d.ctx, &tool.Call{Tool: toolVolume, Args: args}); err != nil {
			d.c.board.boards.Logger.Info("the volume of a board was not set", "device", d.c.board.number, "error", err)
		}
	})
}

func isVolume(name string) bool { return name == toolVolume }

// ownTool returns the name of the first tool of the board itself that has a property, or "".
func (b *Board) ownTool(is func(name string) bool) string {
	b.mu.Lock()
	tools := b.toolset.Tools
	b.mu.Unlock()
	if i := slices.IndexFunc(tools, func(t tool.Tool) bool { return is(t.Name) }); i >= 0 {
		return tools[i].Name
	}
	return ""
}

// commands returns the commands of bots that the board can carry out.
func (d *dialogue) commands() []string {
	if d.c.board.ownTool(remote.TakesPhoto) == "" {
		return []string{talk.CommandLeave}
	}
	return []string{talk.CommandLeave, talk.CommandTakePhoto}
}

// look shows the bot what is before the camera, after it has asked for that.
func (d *dialogue) look() {
	if d.asking != nil {
		return // the person goes on
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	d.reply(ctx, cancel, (*reply).answerPhoto)
}

// answerPhoto has the bot answer a photo. It cannot ask for another one, so that this ends.
func (r *reply) answerPhoto() {
	jpeg, err := r.c.board.takePhoto(r.ctx)
	if err != nil {
		r.c.board.boards.Logger.Info("a board took no photo for its bot", "device", r.c.board.number, "error", err)
		r.say(msgNoPhoto.In(r.c.Lang()))
		return
	}
	r.ask(talk.Part{Image: &talk.Image{MIME: "image/jpeg", Data: jpeg}}, []string{talk.CommandLeave})
}

// quietAfter returns after how much silence the conversation ends when an answer was heard; 0: as
// usual.
func quietAfter(answer string) time.Duration {
	switch {
	case words.IsQuestion(answer):
		return 0
	case words.Count(answer) <= maxShort:
		return quietAfterShort
	}
	return quietAfterLong
}
