package remind

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"patchbay/internal/netx"
)

const (
	// webhookTimeout limits one attempt.
	webhookTimeout = 10 * time.Second
	// webhookRetryDelay is the pause before the second and last attempt.
	webhookRetryDelay = 2 * time.Second
	// maxWebhookReply limits how much of a response is read and discarded so that the connection
	// can be reused.
	maxWebhookReply = 64 << 10
)

// dueEvent is the payload of a webhook request.
type dueEvent struct {
	Event string `json:"event"` // learn.due
	ID    string `json:"id"`    // the same in both attempts
	Due   int    `json:"due"`
	New   int    `json:"new"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// errNoWebhook is returned if the person chose webhooks without giving an address.
var errNoWebhook = errors.New("the person gave no address for the webhook")

// Webhook returns a sender that posts reminders as JSON to the person's address:
//
//	{"event":"learn.due","id":…,"due":12,"new":3,"title":…,"text":…}
//
// Any status from 200 to 299 is success. A failed attempt is repeated once, unless a status such as
// 404 shows that a retry cannot succeed. Redirects are not followed.
//
// Anybody can set such an address, so the client must refuse to connect to anything but the public
// internet.
func Webhook(client *http.Client) Sender { return webhook(client, webhookRetryDelay) }

func webhook(client *http.Client, retryDelay time.Duration) Sender {
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Jar = nil
	return func(ctx context.Context, _ string, m Message) error {
		address, err := webhookAddress(m.Webhook)
		if err != nil {
			return err
		}
		body, err := json.Marshal(dueEvent{"learn.due", m.ID, m.Due, m.New, m.Title, m.Text})
		if err != nil {
			return err
		}
		final, err := post(ctx, &c, address, body)
		if err == nil || final {
			return err
		}
		if netx.Wait(ctx, retryDelay) != nil {
			return err
		}
		_, err = post(ctx, &c, address, body)
		return err
	}
}

// webhookAddress validates an address. Its error does not contain the address, which may hold a
// secret.
func webhookAddress(text string) (string, error) {
	if text == "" {
		return "", errNoWebhook
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("the webhook's address cannot be read")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("the webhook's address is neither http nor https")
	case u.Hostname() == "":
		return "", errors.New("the webhook's address has no host")
	}
	return u.String(), nil
}

// post makes one attempt. final reports that a retry cannot succeed.
func post(ctx context.Context, client *http.Client, address string, body []byte) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return true, errors.New("the webhook's address cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Patchbay")
	res, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // drops the address
		}
		return false, fmt.Errorf("webhook: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, maxWebhookReply)) //nolint:errcheck // only the status matters
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return true, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusRequestTimeout:
		return false, fmt.Errorf("webhook: it answered %d", res.StatusCode)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return true, fmt.Errorf("webhook: it answered %d, and redirects are not followed", res.StatusCode)
	}
	return true, fmt.Errorf("webhook: it answered %d", res.StatusCode)
}
