package openai

import (
	"context"
	"io"
	"strings"
	"time"

	"patchbay/internal/toolbox"
)

// sink receives the output of a model in one round, in the model's order.
type sink struct {
	text  func(string) error
	calls func([]call) error
}

// outcome is how a round ended.
type outcome struct {
	// finish is the finish_reason of the server, or "" if there was none.
	finish string
	usage  *usage
	// first is the time to the first piece; 0: none came.
	first time.Duration
	// thought is the reasoning_content, truncated to maxThought.
	thought string
}

// maxThought limits how much of a model's reasoning is kept, in bytes. It is sent back to the
// server with the results of calls. Servers that require it check that it is present.
const maxThought = 64 << 10

// round sends one request and forwards the response. It returns the error of a sink unchanged, and
// otherwise the reason why the response is incomplete. The caller has to check ctx itself.
func (b *Bot) round(ctx context.Context, body []byte, to sink) (out outcome, err error) {
	began := time.Now()
	ctx, span := b.traceRound(ctx)
	defer func() { endRound(span, out, err) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := b.openReply(ctx, cancel, body)
	if err == nil {
		defer r.close()
		in := answerReader{to: to, reply: r, began: began}
		if err = in.read(); err == nil {
			in.out.thought = in.thoughts.String()
			return in.out, nil
		}
		out.first, out.usage = in.out.first, in.out.usage
	}
	// An exceeded limit shows up as a cancelled read.
	if cause := context.Cause(ctx); cause != nil {
		if _, ours := err.(*emitError); !ours {
			err = cause
		}
	}
	return out, err
}

// answerReader reads one response.
type answerReader struct {
	to        sink
	reply     *reply
	began     time.Time // of the request
	reasoning reasoningFilter
	calls     callAssembler
	hasText   bool
	out       outcome
	// thoughts collects out.thought.
	thoughts strings.Builder
}

func (l *answerReader) read() error {
	var d delta
	for {
		err := l.reply.next(&d)
		if err == io.EOF {
			break
		}
		if err != nil {
			if l.out.finish != "" {
				break // the model has finished; only the end of the stream is missing
			}
			return err
		}
		if err := l.take(&d); err != nil {
			return err
		}
	}
	return l.finish()
}

func (l *answerReader) take(d *delta) error {
	if d.usage != nil {
		l.out.usage = d.usage
	}
	if l.out.first == 0 && (d.text != "" || d.thought != "" || len(d.calls) > 0) {
		l.out.first = time.Since(l.began)
	}
	if d.complete && l.hasText {
		d.text = "" // the last event repeats the whole answer
	}
	if !d.complete || l.thoughts.Len() == 0 {
		l.thoughts.WriteString(toolbox.Clip(d.thought, maxThought-l.thoughts.Len()))
	}
	for _, f := range d.calls {
		if err := l.calls.add(f); err != nil {
			return err
		}
	}
	if text := l.reasoning.pass(d.text); text != "" {
		// A complete command is sent before the text, because the platform of the glasses was seen
		// to ignore a command after text (davexxx1214/openclaw-lingzhu-skill at 176fde9,
		// EasyAR-WebAR-Demo/lingzhu-server/README.md).
		if d.complete || l.calls.isComplete() {
			if err := l.emitCalls(); err != nil {
				return err
			}
		}
		l.hasText = true
		if err := l.to.text(text); err != nil {
			return err
		}
	}
	if d.finish == "" || l.out.finish != "" {
		return nil
	}
	l.out.finish = d.finish
	l.reply.pace.limit(tailTimeout, errTail)
	return l.finish()
}

// finish forwards what was held back.
func (l *answerReader) finish() error {
	if rest := l.reasoning.rest(); rest != "" {
		l.reasoning = reasoningFilter{state: thinkOver}
		l.hasText = true
		if err := l.to.text(rest); err != nil {
			return err
		}
	}
	return l.emitCalls()
}

func (l *answerReader) emitCalls() error {
	if made := l.calls.take(); len(made) > 0 {
		return l.to.calls(made)
	}
	return nil
}
