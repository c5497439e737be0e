package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// What the owner is told, with the details in brackets.
const (
	msgNoReach      = i18n.Message("%s cannot be reached (%s); %s")
	msgNotRunning   = i18n.Message("is the model's server running, and is base_url right?")
	msgIsBaseRight  = i18n.Message("is base_url right?")
	msgIsTLSRight   = i18n.Message("does base_url need http instead of https, or the server another certificate?")
	msgIsProxy      = i18n.Message("is the address right, and is a proxy or firewall between?")
	msgIsHostSpelt  = i18n.Message("is base_url spelt right?")
	msgRefusedConn  = i18n.Message("connection refused")
	msgNotSecure    = i18n.Message("no secure connection: %s")
	msgNoAnswerYet  = i18n.Message("no answer in time")
	msgNoHost       = i18n.Message("there is no host named %s")
	msgWantsKey     = i18n.Message("%s wants a key; set api_key (%s)")
	msgKeyWrong     = i18n.Message("%s does not accept the key; check api_key (%s)")
	msgAccountEmpty = i18n.Message("%s accepts the key, but its account has no credit left (%s)")
	msgHasModels    = i18n.Message("%s does not know the model %q; it has %s (%s)")
	msgModelRefused = i18n.Message("%s does not answer as model %q (%s); check model")
	msgNoChatAPI    = i18n.Message("there is no chat API at %s (%s); check base_url, which often ends in /v1")
	msgNotAnswering = i18n.Message("%s does not answer (%s)")
	msgAskedBut     = i18n.Message("%s was asked, but failed: %s")
	msgNoWord       = i18n.Message("it ended the answer without a word")
	msgAndMore      = i18n.Message("%s and %d more")
)

const (
	// listTimeout is the timeout of a request for the list of models.
	listTimeout = 15 * time.Second
	// maxList limits the list of models, in bytes. The longest known list has some 500 KiB.
	maxList = 4 << 20
	// maxNamesShown limits how many models an error names.
	maxNamesShown = 8
)

// Check tests whether the model can be used: the server can be reached, the key is accepted, the
// model exists. Its error is a text for the owner. If the list of models is not conclusive (many
// servers have none, some show it to everybody), it asks the model for one word.
func (b *Bot) Check(ctx context.Context) error {
	names, status, err := b.list(ctx, true)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && status == 0:
		return b.unreachable(err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return b.keyRefused(err)
	case err == nil && isListed(names, b.settings.Model) && b.listNeedsKey(ctx):
		return nil
	}
	if err := b.askOneWord(ctx); err != nil {
		return b.explain(ctx, err, names)
	}
	return nil
}

// Probe tests the connection to the model. It only requests the list of models, so it costs
// nothing. An empty problem means none was found; proven reports whether the model is in the list.
// Most refusals of the list are ignored, because many servers have no list.
func (b *Bot) Probe(ctx context.Context) (p Problem, proven bool) {
	names, status, err := b.list(ctx, true)
	switch {
	case err == nil:
		return "", isListed(names, b.settings.Model)
	case fetch.IsForbidden(err):
		return ProblemPrivateAddress, false
	case status == 0:
		return ProblemUnreachable, false
	case status == http.StatusUnauthorized: // 403 may be a key that may ask but not list
		return ProblemKey, false
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable ||
		status == http.StatusGatewayTimeout:
		return ProblemServer, false
	}
	return "", false
}

// listNeedsKey reports whether the list of models proves that the key is valid: there is no key, or
// the list is refused without it.
func (b *Bot) listNeedsKey(ctx context.Context) bool {
	if b.settings.APIKey == "" {
		return true
	}
	_, status, _ := b.list(ctx, false)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// list returns the names of the models, requested with our key or without. The status is 0 if there
// was no response.
func (b *Bot) list(ctx context.Context, signed bool) (names []string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.endpoint.models, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json")
	if signed {
		b.setHeaders(req)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return nil, 0, unreachable(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode, responseError(resp)
	}
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(&page); err != nil {
		return nil, resp.StatusCode, errNotJSON
	}
	for _, m := range page.Data {
		names = append(names, m.ID)
	}
	return names, resp.StatusCode, nil
}

// isListed reports whether a model is in a list. Ollama lists "name:latest" for the model "name",
// as latest is its default tag (ollama, docs/api.md, Model names).
func isListed(names []string, model string) bool {
	for _, name := range names {
		if name == model || name == model+":latest" {
			return true
		}
	}
	return false
}

// askOneWord asks the model and waits for the first chunk of the answer.
func (b *Bot) askOneWord(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	messages := []promptMessage{{role: roleUser, parts: []talk.Part{{Text: "Reply with the word: ok"}}}}
	r, err := b.openReply(ctx, cancel, b.request(&talk.Turn{}, messages, nil, "", false))
	if err == nil {
		var d delta
		err = r.next(&d)
		r.close()
		if err == io.EOF {
			return msgNoWord.Errorf()
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

func (b *Bot) unreachable(err error) error {
	var why any = b.redact(err.Error())
	advice := msgIsBaseRight
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why, advice = msgRefusedConn, msgNotRunning
	case isTLS(err):
		why, advice = msgNotSecure.With(why), msgIsTLSRight
	case errors.Is(err, context.DeadlineExceeded):
		why, advice = msgNoAnswerYet, msgIsProxy
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		why, advice = msgNoHost.With(dns.Name), msgIsHostSpelt
	}
	return msgNoReach.Errorf(b.endpoint.display, why, advice)
}

func (b *Bot) keyRefused(err error) error {
	m := msgKeyWrong
	if b.settings.APIKey == "" {
		m = msgWantsKey
	}
	return m.Errorf(b.endpoint.host, b.redact(err.Error()))
}

// explain returns an error for the owner that explains why the model cannot be used.
func (b *Bot) explain(ctx context.Context, err error, names []string) error {
	why := b.redact(err.Error())
	if e, ok := errors.AsType[*serverError](err); ok {
		switch {
		case e.isOutOfCredit():
			return msgAccountEmpty.Errorf(b.endpoint.host, why)
		case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
			return b.keyRefused(err)
		case len(names) > 0 && !isListed(names, b.settings.Model):
			return msgHasModels.Errorf(b.endpoint.host, b.settings.Model, joinFirst(names), why)
		case strings.Contains(strings.ToLower(e.message+e.code), "model"):
			return msgModelRefused.Errorf(b.endpoint.host, b.settings.Model, why)
		case e.status == http.StatusNotFound || e.status == http.StatusMethodNotAllowed || e.status/100 == 3:
			return msgNoChatAPI.Errorf(b.endpoint.display, why)
		}
		return msgNotAnswering.Errorf(b.endpoint.display, why)
	}
	if _, ok := errors.AsType[*unreachableError](err); ok {
		return b.unreachable(err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errWebPage) || errors.Is(err, errNotJSON):
		return msgNoChatAPI.Errorf(b.endpoint.display, why)
	}
	if _, ok := errors.AsType[*i18n.Error](err); ok {
		return msgAskedBut.Errorf(b.endpoint.display, err)
	}
	return msgAskedBut.Errorf(b.endpoint.display, why)
}

// joinFirst returns the first names as a list.
func joinFirst(names []string) any {
	shown := make([]string, 0, maxNamesShown)
	for _, name := range names[:min(len(names), maxNamesShown)] {
		shown = append(shown, oneLine(name, 80))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		return msgAndMore.With(text, more)
	}
	return text
}
