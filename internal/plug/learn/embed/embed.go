// Package embed asks a server that speaks OpenAI's API for vectors of texts.
package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// timeout is how long one batch may take, with its second try.
	timeout = 60 * time.Second
	// maxBody bounds an answer, which is held in memory: 64 vectors of 4,096 numbers
	// of 25 characters are 6.5 MB.
	maxBody = 32 << 20
	// maxErrorBody is how much of an error page is read.
	maxErrorBody = 16 << 10
	// maxMessage bounds what of a server's error gets into a log, in bytes.
	maxMessage = 300
	// maxDims is the longest vector that is taken.
	maxDims = 8192
	// pause is what lies between two tries if the server does not say; longestPause
	// caps what it may ask for.
	pause        = 500 * time.Millisecond
	longestPause = 10 * time.Second
	// defaultBatch is how many texts go at once; most servers take more, and some
	// no more than ten.
	defaultBatch = 32
)

// Options make a client.
type Options struct {
	// URL is the base of the API, such as https://api.openai.com/v1; /embeddings is
	// appended.
	URL string
	// Key is sent as a bearer token; empty: none is.
	Key string
	// Model is the embedding model's name.
	Model string
	// Dims asks for vectors of this length, of models that can be asked; 0: as long
	// as the model makes them.
	Dims int
	// Client makes the requests; nil: one of our own.
	Client *http.Client
	// Batch is how many texts go at once; 0: 32.
	Batch int
}

// Client asks for vectors. It is safe for concurrent use.
type Client struct {
	o   Options
	url string
}

// New makes a client; nothing is asked yet.
func New(o Options) (*Client, error) {
	u, err := url.Parse(strings.TrimSpace(o.URL))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the address of the embedding API should look like https://api.openai.com/v1")
	case strings.TrimSpace(o.Model) == "":
		return nil, errors.New("the embedding model has no name")
	case o.Dims < 0 || o.Dims > maxDims:
		return nil, fmt.Errorf("a vector has %d numbers at most", maxDims)
	case o.Batch < 0:
		return nil, errors.New("a batch has at least one text")
	}
	if o.Client == nil {
		// A redirect would carry the key, and what is learnt, to somebody else.
		o.Client = &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	u = u.JoinPath("embeddings")
	return &Client{o, u.String()}, nil
}

// Model names the model and, if one was asked for, the length of its vectors: those
// of another length cannot be compared.
func (c *Client) Model() string {
	if c.o.Dims == 0 {
		return c.o.Model
	}
	return c.o.Model + "/" + strconv.Itoa(c.o.Dims)
}

// Error is what a server reports.
type Error struct {
	Status  int
	Message string // without the key

	after time.Duration // before it should be asked again; negative: it did not say
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the embedding API answers with status %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the embedding API answers with status %d: %s", e.Status, e.Message)
}

// Refused says that the texts are at fault, or the settings, so that asking the
// same again is of no use.
func (e *Error) Refused() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// passing says that the same request may succeed a moment later.
func (e *Error) passing() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// Embed returns one vector for each text, in order, all of one length. What a
// server reports is an *[Error].
func (c *Client) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(len(texts), c.o.Batch)
		vectors, err := c.batch(ctx, texts[:n])
		if err != nil {
			return nil, err
		}
		out, texts = append(out, vectors...), texts[n:]
	}
	for _, v := range out {
		if len(v) != len(out[0]) {
			return nil, errors.New("the embedding API gives vectors of different lengths")
		}
	}
	return out, nil
}

// request is the body of a request.
type request struct {
	Model          string   `json:"model"`
	Input          []string `json:"input"`
	Dimensions     int      `json:"dimensions,omitempty"`
	EncodingFormat string   `json:"encoding_format"`
}

// batch asks once, and once again if the server is busy.
func (c *Client) batch(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(request{c.o.Model, texts, c.o.Dims, "float"})
	if err != nil {
		return nil, err
	}
	vectors, err := c.try(ctx, body, len(texts))
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.passing() {
		return vectors, err
	}
	wait := pause
	if e.after >= 0 {
		wait = min(e.after, longestPause)
	}
	if until, ok := ctx.Deadline(); ok && time.Until(until) <= wait {
		return nil, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return c.try(ctx, body, len(texts))
	case <-ctx.Done():
		return nil, err
	}
}

func (c *Client) try(ctx context.Context, body []byte, n int) ([][]float32, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the address of the embedding API cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "patchbay")
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	resp, err := c.o.Client.Do(req)
	if err != nil {
		// The client's error quotes the address, which may hold a secret.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("reach the embedding API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, c.refusal(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the embedding API's answer: %w", err)
	}
	if len(text) > maxBody {
		return nil, errors.New("the embedding API's answer is too long")
	}
	return c.read(text, n)
}

// refusal reads an error of the published form, or what there is of another.
func (c *Client) refusal(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, after: -1}
	if s, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && s >= 0 && s < 1e6 {
		e.after = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		e.after = max(time.Until(at), 0)
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	var page struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(text, &page) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(page.Error, &inner.Message) != nil {
			_ = json.Unmarshal(page.Error, &inner)
		}
		e.Message = inner.Message
		if e.Message == "" {
			e.Message = page.Message
		}
	}
	e.Message = c.redact(e.Message)
	return e
}

// redact takes the key out of what a server says, and cuts it.
func (c *Client) redact(text string) string {
	if c.o.Key != "" {
		text = strings.ReplaceAll(text, c.o.Key, "***")
	}
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// read finds the vectors of n texts in an answer.
func (c *Client) read(text []byte, n int) ([][]float32, error) {
	var page struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		// The decoder's error may quote what came.
		return nil, errors.New("the embedding API's answer cannot be read; is the address right?")
	}
	if len(page.Data) != n {
		return nil, fmt.Errorf("the embedding API gives %d vectors for %d texts", len(page.Data), n)
	}
	out := make([][]float32, n)
	for i, d := range page.Data {
		at := i // a server that leaves the index out keeps the order
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || out[at] != nil {
			return nil, errors.New("the embedding API's answer says twice, or not at all, which vector is whose")
		}
		switch length := len(d.Embedding); {
		case length == 0 || length > maxDims:
			return nil, fmt.Errorf("the embedding API gives a vector of %d numbers", length)
		case c.o.Dims > 0 && length != c.o.Dims:
			return nil, fmt.Errorf("the embedding API gives %d numbers instead of %d: the model's length cannot be chosen", length, c.o.Dims)
		case i > 0 && length != len(page.Data[0].Embedding):
			return nil, errors.New("the embedding API gives vectors of different lengths")
		}
		out[at] = d.Embedding
	}
	return out, nil
}
