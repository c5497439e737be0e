// Package embed requests vectors of texts from a server with OpenAI's embeddings API (OpenAI API
// reference, "Create embeddings").
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

	"patchbay/internal/netx"
)

const (
	// timeout limits one batch, including its retry.
	timeout = 60 * time.Second
	// maxBody limits a response, which is held in memory: 64 vectors of 4,096 numbers of 25
	// characters are 6.5 MB.
	maxBody = 32 << 20
	// maxErrorBody limits how much of an error response is read, in bytes.
	maxErrorBody = 16 << 10
	// maxMessage limits the part of a server's error message that is logged, in bytes.
	maxMessage = 300
	// maxDims is the longest accepted vector.
	maxDims = 8192
	// retryDelay is the delay before the retry if the server asks for none; maxRetryDelay is the
	// longest delay that the server may ask for.
	retryDelay    = 500 * time.Millisecond
	maxRetryDelay = 10 * time.Second
	// defaultBatch is the number of texts per request; some servers accept no more than ten.
	defaultBatch = 32
)

// Options configure a [Client].
type Options struct {
	// URL is the base of the API, such as https://api.openai.com/v1; /embeddings is
	// appended.
	URL string
	// Key is sent as a bearer token; empty means no authentication.
	Key string
	// Model is the embedding model's name.
	Model string
	// Dims requests vectors of this length from models that support it; 0 means the model's own
	// length.
	Dims int
	// Client sends the requests; nil means a client of this package.
	Client *http.Client
	// Batch is the number of texts per request; 0 means 32.
	Batch int
}

// Client requests vectors. It is safe for concurrent use.
type Client struct {
	o   Options
	url string
}

// New returns a client. It sends no request.
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
		// Following a redirect would send the key and the texts to another server.
		o.Client = &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	u = u.JoinPath("embeddings")
	return &Client{o, u.String()}, nil
}

// Model names the model and, if requested, the length of its vectors: vectors of different lengths
// cannot be compared.
func (c *Client) Model() string {
	if c.o.Dims == 0 {
		return c.o.Model
	}
	return c.o.Model + "/" + strconv.Itoa(c.o.Dims)
}

// Error is an error response of the server.
type Error struct {
	Status  int
	Message string // with the key removed

	retryAfter time.Duration // delay that the server asked for; negative: none given
}

func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the embedding API answers with status %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the embedding API answers with status %d: %s", e.Status, e.Message)
}

// Refused reports whether the texts or the settings are at fault, so that a retry cannot succeed.
func (e *Error) Refused() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// isTransient reports whether the same request may succeed a moment later.
func (e *Error) isTransient() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// Embed returns one vector per text, in order, all of the same length. An error response of the
// server is returned as *[Error].
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

// batch sends one request, and retries it once if the server is busy.
func (c *Client) batch(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(request{c.o.Model, texts, c.o.Dims, "float"})
	if err != nil {
		return nil, err
	}
	vectors, err := c.try(ctx, body, len(texts))
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.isTransient() {
		return vectors, err
	}
	wait := retryDelay
	if e.retryAfter >= 0 {
		wait = min(e.retryAfter, maxRetryDelay)
	}
	if until, ok := ctx.Deadline(); ok && time.Until(until) <= wait {
		return nil, err
	}
	if netx.Wait(ctx, wait) != nil {
		return nil, err
	}
	return c.try(ctx, body, len(texts))
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
		// The client's error contains the URL, which may hold a secret.
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("reach the embedding API: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, c.responseError(resp)
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

// responseError parses an error of OpenAI's form, or takes the text of any other.
func (c *Client) responseError(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, retryAfter: -1}
	if s, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && s >= 0 && s < 1e6 {
		e.retryAfter = time.Duration(s) * time.Second
	} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		e.retryAfter = max(time.Until(at), 0)
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

// redact removes the key from a server's message and shortens it.
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

// read parses a response with the vectors of n texts.
func (c *Client) read(text []byte, n int) ([][]float32, error) {
	var page struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		// The decoder's error may quote the response.
		return nil, errors.New("the embedding API's answer cannot be read; is the address right?")
	}
	if len(page.Data) != n {
		return nil, fmt.Errorf("the embedding API gives %d vectors for %d texts", len(page.Data), n)
	}
	out := make([][]float32, n)
	for i, d := range page.Data {
		at := i // servers that omit the index keep the order
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
			return nil,
				fmt.Errorf("the embedding API gives %d numbers instead of %d: the model's length cannot be chosen",
					length, c.o.Dims)
		case i > 0 && length != len(page.Data[0].Embedding):
			return nil, errors.New("the embedding API gives vectors of different lengths")
		}
		out[at] = d.Embedding
	}
	return out, nil
}
