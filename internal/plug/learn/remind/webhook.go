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
)

const (
	// webhookLimit bounds one try.
	webhookLimit = 10 * time.Second
	// webhookAgain is the pause before the second try, which is the last.
	webhookAgain = 2 * time.Second
	// webhookReply is how much of a reply is read, so that its connection can be used
	// again; what it says is of no interest.
	webhookReply = 64 << 10
)

// dueEvent is what a webhook is told.
type dueEvent struct {
	Event string `json:"event"` // learn.due
	ID    string `json:"id"`    // the same in a second try
	Due   int    `json:"due"`
	New   int    `json:"new"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// errNoWebhook says that a person chose the way and gave no address.
var errNoWebhook = errors.New("the person gave no address for the webhook")

// Webhook posts reminders as JSON to the addresses that people gave:
//
//	{"event":"learn.due","id":…,"due":12,"new":3,"title":…,"text":…}
//
// Any status from 200 to 299 is success. A try that failed, but not by a status such
// as 404 that will not change, is repeated once. Redirects are not followed.
//
// The addresses are anybody's: the client must refuse to connect to anything but the
// public internet.
func Webhook(client *http.Client) Way { return webhook(client, webhookAgain) }

func webhook(client *http.Client, again time.Duration) Way {
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
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return err
		}
		_, err = post(ctx, &c, address, body)
		return err
	}
}

// webhookAddress checks an address. What is wrong is said without the address, which
// may have a secret in it.
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

// post makes one try. Final says that another would end the same.
func post(ctx context.Context, client *http.Client, address string, body []byte) (final bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, webhookLimit)
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
			err = e.Err // without the address
		}
		return false, fmt.Errorf("webhook: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, webhookReply)) //nolint:errcheck // the status is all that counts
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return true, nil
	case res.StatusCode >= 500, res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusRequestTimeout:
		return false, fmt.Errorf("webhook: it answered %d", res.StatusCode)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return true, fmt.Errorf("webhook: it answered %d, and redirects are not followed", res.StatusCode)
	}
	return true, fmt.Errorf("webhook: it answered %d", res.StatusCode)
}
