package xiaozhi

import (
	"cmp"
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
	"patchbay/internal/voice/vad"
	"patchbay/internal/voice/words"
)

const (
	// greetDelay is for how many samples a board that was woken waits before it greets: the person
	// may ask at once, within 600 ms, which is known 220 ms later.
	greetDelay = vad.SampleRate * 820 / 1000
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

// listens does what is due when the board begins to listen.
func (d *dialogue) listens() {
	_, s := d.current()
	d.c.tellRecorded(s)
	if !d.met {
		d.greet = greetDelay
	}
}

// answers does what is due when the board begins to speak.
func (d *dialogue) answers(s VoiceSettings) {
	d.met, d.greet = true, 0
	d.setVolume(s.Volume)
}

// setSilence sets the pause that ends a question of which no text is known.
func (d *dialogue) setSilence(s VoiceSettings) {
	d.ends.SetSilence(cmp.Or(time.Duration(s.Silence), defaultPause))
}

// recordQuestion begins to record a question if the owner wants that.
func (d *dialogue) recordQuestion(s VoiceSettings) {
	if s.Record != 0 {
		d.c.tellRecorded(s)
		d.sound.record(d.c.hello.Audio.SampleRate)
	}
}

// chosenLanguage returns the language that somebody has chosen, or "": boards are in English
// because nobody has changed that.
func (d *dialogue) chosenLanguage(s VoiceSettings) string {
	if s.Language == d.c.device.Language && !words.HasOwnScript(s.Language) {
		return ""
	}
	return s.Language
}

// greetWhenQuiet greets the person who has woken the board, unless they ask at once. It gets the
// number of samples that were heard.
func (d *dialogue) greetWhenQuiet(heard int) {
	switch {
	case d.greet == 0:
		return
	case d.asking != nil || d.mode == wire.ModeManual:
		d.greet = 0
		return
	}
	if d.greet = max(d.greet-heard, 1); d.greet > 1 || d.ends.MayBegin() {
		return
	}
	d.greet = 0
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

// endWhenQuiet ends the conversation after silence, when an answer was heard.
func (s *VoiceSettings) endWhenQuiet(c *Conversation, answer string) {
	c.endWhenQuiet(cmp.Or(time.Duration(s.FollowUp), quietAfter(answer)))
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
