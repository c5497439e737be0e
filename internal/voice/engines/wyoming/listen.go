package wyoming

import (
	"context"
	"encoding/binary"
	"strings"
	"sync"

	"patchbay/internal/voice/engine"
)

// pieceSamples is the sound in one event: 64 ms, which is what Home Assistant's satellites send
// (rhasspy/wyoming-satellite, --mic-command-samples-per-chunk 1024).
const pieceSamples = 1024

// format is that of the sound that listeners get.
var format = soundFormat{Rate: engine.Rate, Width: 2, Channels: 1}

// recognise is an [engine.ListenLive].
func (c *client) recognise(ctx context.Context, h engine.Hints, d *engine.Dictation) error {
	in, err := c.describe(ctx)
	if err != nil {
		return c.failed(err)
	}
	request, err := in.transcribe(&c.settings, h)
	if err != nil {
		return c.failed(err)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return c.failed(err)
	}
	defer conn.close()
	return c.failed(conn.dictate(request, d))
}

// dictate sends the sound of an utterance in a goroutine of its own while it receives transcripts.
func (c *connection) dictate(request transcribeData, d *engine.Dictation) error {
	ctx, stop := context.WithCancel(c.ctx)
	var sender sync.WaitGroup
	var sendErr error
	c.expect(c.limits.speech)
	sender.Go(func() {
		switch err := c.sendSpeech(ctx, request, d); {
		case err == nil:
			c.expect(c.limits.result)
		case ctx.Err() == nil:
			sendErr = err
			c.expect(c.limits.lost) // perhaps the server said why
		}
	})
	err := c.receiveTranscripts(d)
	stop()
	_ = c.Close() // ends a blocked write
	sender.Wait()
	if err == nil {
		return nil
	}
	err = c.failure(err)
	if e := engine.AsError(err); sendErr != nil && e != nil && (e.Class == engine.Closed || e.Class == engine.Timeout) {
		return c.failure(sendErr) // the cause
	}
	return err
}

// sendSpeech sends the request, the sound and its end.
func (c *connection) sendSpeech(ctx context.Context, request transcribeData, d *engine.Dictation) error {
	if err := c.send(transcribe, request, nil); err != nil {
		return err
	}
	if err := c.send(audioStart, format, nil); err != nil {
		return err
	}
	var payload []byte
	for {
		samples, last, err := d.Piece(ctx, pieceSamples)
		if err != nil {
			return err
		}
		payload = payload[:0]
		for _, s := range samples {
			payload = binary.LittleEndian.AppendUint16(payload, uint16(s))
		}
		if len(payload) > 0 {
			if err := c.send(audioChunk, format, payload); err != nil {
				return err
			}
		}
		if last {
			return c.send(audioStop, nil, nil)
		}
	}
}

// receiveTranscripts returns nil after the final transcript.
func (c *connection) receiveTranscripts(d *engine.Dictation) error {
	var text strings.Builder
	for {
		e, err := c.events.next()
		if err != nil {
			return err
		}
		var t transcriptData
		switch e.kind {
		case transcriptChunk, transcriptEvent:
			if err := e.decode(&t); err != nil {
				return err
			}
		case errorEvent:
			return e.failure()
		}
		heard := engine.Transcript{Text: strings.TrimSpace(t.Text), Language: t.Language}
		switch e.kind {
		case transcriptEvent:
			heard.Final = true
			return d.Publish(heard)
		case transcriptChunk, transcriptStop:
			text.WriteString(t.Text)
			heard.Text, heard.Final = strings.TrimSpace(text.String()), e.kind == transcriptStop
			if err := d.Publish(heard); err != nil || heard.Final {
				return err
			}
		case transcriptStart:
			text.Reset()
		}
	}
}
