package realtime

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// utterance is the recognition of one utterance.
type utterance struct {
	v     *service
	conn  *realtime.Conn
	d     *engine.Dictation
	parts []part // in the order of the speech
}

// part is what was said between two pauses, if the service finds them.
type part struct {
	item, text, language string
	committed, done      bool
}

// listen is an [engine.ListenLive].
func (v *service) listen(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	return v.failed(ctx, engine.StageListen, v.recognise(ctx, h, d))
}

// recognise connects, and returns nil after the final transcript. One goroutine sends and another
// one receives.
func (v *service) recognise(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	s := realtime.Session{Purpose: realtime.Transcribe, Language: v.language(h.Language),
		Prompt: strings.Join(h.Words, ", ")}
	model := cmp.Or(v.settings.ListenModel, DefaultListenModel)
	if v.options.Spelling == realtime.Qwen {
		// It sends partial texts while it looks for pauses.
		model, s.Detection = cmp.Or(v.settings.ListenModel, DefaultQwenListenModel), realtime.ServerVAD
	} else {
		s.TranscriptionModel = model
	}
	conn, err := v.open(ctx, model, &s)
	if err != nil {
		return err
	}
	u := &utterance{v: v, conn: conn, d: d}
	ctx, stop := context.WithCancel(ctx)
	sent := make(chan error, 1)
	var sender sync.WaitGroup
	sender.Go(func() { sent <- u.send(ctx) })
	err = u.receive(ctx, sent)
	stop()
	conn.Close()
	sender.Wait()
	return err
}

// send sends the sound and its end.
func (u *utterance) send(ctx context.Context) error {
	up := realtime.NewUpsampler(u.v.options.Spelling)
	for total := 0; ; {
		samples, last, err := u.d.Piece(ctx, pieceSamples)
		if err != nil {
			return err
		}
		total += len(samples)
		if last && total < minSamples {
			samples = append(samples, make([]int16, minSamples-total)...)
		}
		if out := up.Convert(samples, last); len(out) > 0 {
			if err := u.conn.Send(ctx, realtime.AppendAudio(out)); err != nil {
				return err
			}
		}
		if last {
			break
		}
	}
	if u.v.options.Spelling == realtime.Qwen {
		return u.conn.Send(ctx, realtime.Finish())
	}
	return u.conn.Send(ctx, realtime.CommitAudio())
}

// receive receives events up to the final transcript. Sent gets the result of send.
func (u *utterance) receive(ctx context.Context, sent <-chan error) error {
	limit := u.v.limits.speech
	quiet := time.NewTimer(limit)
	defer quiet.Stop()
	var sendErr error
	for {
		select {
		case m := <-u.conn.Messages():
			if final, err := u.accept(m.Data); err != nil || final {
				return err
			}
			quiet.Reset(limit)
		case sendErr = <-sent:
			if limit = u.v.limits.result; sendErr != nil {
				limit = u.v.limits.lost // why has the service closed the connection?
			}
			quiet.Reset(limit)
		case <-u.conn.Done():
			return u.conn.Err()
		case <-quiet.C:
			return cmp.Or(sendErr, error(errSilent))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// accept handles an event and reports whether the transcript is final.
func (u *utterance) accept(data []byte) (final bool, err error) {
	e, err := realtime.Decode(data)
	if err != nil {
		return false, err
	}
	switch e.Type {
	case realtime.Committed:
		u.part(e.ItemID).committed = true
		return false, nil
	case realtime.InputDelta:
		u.part(e.ItemID).text += e.Text
	case realtime.InputText:
		u.part(e.ItemID).text = e.Text + e.Stash
	case realtime.InputDone:
		p := u.part(e.ItemID)
		p.text, p.language, p.done = e.Text, e.Language, true
		final = p.committed && u.v.options.Spelling == realtime.OpenAI
	case realtime.SessionFinished:
		final = true
	case realtime.InputFailed, realtime.Failed:
		return false, e.Err.In()
	default:
		return false, nil
	}
	return final, u.d.Publish(u.transcript(final))
}

// part returns the part of an item.
func (u *utterance) part(item string) *part {
	for i := range u.parts {
		if u.parts[i].item == item {
			return &u.parts[i]
		}
	}
	u.parts = append(u.parts, part{item: item})
	return &u.parts[len(u.parts)-1]
}

func (u *utterance) transcript(final bool) engine.Transcript {
	t := engine.Transcript{Final: final}
	for _, p := range u.parts {
		t.Text = engine.JoinTexts(t.Text, p.text)
		t.Language = cmp.Or(p.language, t.Language)
	}
	return t
}
