package mcptest

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/tool"
)

// Watched is the URI of the resource that can change.
const Watched = "test://watched-resource"

// pageSize is the number of resources per page, smaller than their number.
const pageSize = 2

var resources = []tool.Resource{
	{URI: "test://static-text", Name: "static-text", Title: "Static text", Description: "Words that do not change.",
		MIME: "text/plain"},
	{URI: "test://static-binary", Name: "static-binary", Title: "Static bytes",
		Description: "A picture that does not change.", MIME: "image/png"},
	{URI: Watched, Name: "watched-resource", Title: "Watched words", Description: "Words that change.",
		MIME: "text/plain"},
}

// Resources implements [tool.ResourceProvider].
func (f *Fixtures) Resources(_ context.Context, _ tool.Caller,
	cursor string) (list []tool.Resource, next string, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from <= 0 || from >= len(resources) {
			return nil, "", tool.Fail(tool.BadArgs, "There is no such page.", err)
		}
	}
	to := min(from+pageSize, len(resources))
	if to < len(resources) {
		next = strconv.Itoa(to)
	}
	return slices.Clone(resources[from:to]), next, nil
}

// Templates implements [tool.ResourceProvider].
func (f *Fixtures) Templates(context.Context, tool.Caller) ([]tool.Template, error) {
	return []tool.Template{{
		URITemplate: "test://template/{id}/data", Name: "template", Title: "Data by id",
		Description: "Data that is made from an id.", MIME: "application/json",
	}}, nil
}

var templated = regexp.MustCompile(`^test://template/([^/]+)/data$`)

// Read implements [tool.ResourceProvider].
func (f *Fixtures) Read(_ context.Context, _ tool.Caller, uri string) ([]tool.Contents, error) {
	words := func(mime, text string) ([]tool.Contents, error) {
		return []tool.Contents{{URI: uri, MIME: mime, Text: &text}}, nil
	}
	switch uri {
	case "test://static-text":
		return words("text/plain", "This is the content of the static text resource.")
	case "test://static-binary":
		return []tool.Contents{{URI: uri, MIME: "image/png", Blob: picture}}, nil
	case Watched:
		f.mu.Lock()
		defer f.mu.Unlock()
		return words("text/plain", "Changed "+strconv.Itoa(f.watched)+" times")
	}
	if m := templated.FindStringSubmatch(uri); m != nil {
		if id, err := url.PathUnescape(m[1]); err == nil {
			return words("application/json", string(raw(struct {
				ID   string `json:"id"`
				Test bool   `json:"templateTest"`
				Data string `json:"data"`
			}{id, true, "Data for ID: " + id})))
		}
	}
	return nil, tool.ErrNotFound
}

var prompts = []tool.Prompt{
	{Name: "test_simple_prompt", Title: "Simple", Description: "A prompt without gaps."},
	{Name: "test_prompt_with_arguments", Title: "With arguments", Description: "A prompt with two gaps.",
		Arguments: []tool.Argument{
			{Name: "arg1", Description: "First test argument", Required: true},
			{Name: "arg2", Description: "Second test argument", Required: true},
		}},
	{Name: "test_prompt_with_embedded_resource", Title: "With a resource",
		Description: "A prompt with a resource in it.", Arguments: []tool.Argument{
			{Name: "resourceUri", Description: "URI of the resource to embed", Required: true},
		}},
	{Name: "test_prompt_with_image", Title: "With a picture", Description: "A prompt with a picture in it."},
	{Name: "test_input_required_result_prompt", Title: "With a question", Description: "A prompt that asks first."},
}

// Prompts implements [tool.PromptProvider].
func (f *Fixtures) Prompts(context.Context, tool.Caller) ([]tool.Prompt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(prompts)
	if f.prompts > 0 {
		list = append(list, tool.Prompt{
			Name:        transient("prompt", f.prompts),
			Description: "Comes and goes when test_trigger_prompt_change is called.",
		})
	}
	return list, nil
}

// Prompt implements [tool.PromptProvider].
func (f *Fixtures) Prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	list, err := f.Prompts(ctx, c.Caller)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(p tool.Prompt) bool { return p.Name == c.Tool })
	if i < 0 {
		return nil, tool.ErrNotFound
	}
	gaps, err := arguments(list[i], c)
	if err != nil {
		return nil, err
	}
	p := &tool.PromptResult{Description: list[i].Description}
	switch c.Tool {
	case "test_simple_prompt":
		p.Messages = []tool.Message{tool.TextMessage("user", "This is a simple prompt for testing.")}
	case "test_prompt_with_arguments":
		p.Messages = []tool.Message{tool.TextMessage("user",
			"Prompt with arguments: arg1='"+gaps["arg1"]+"', arg2='"+gaps["arg2"]+"'")}
	case "test_prompt_with_embedded_resource":
		p.Messages = []tool.Message{
			{Role: "user", Content: raw(embedded(gaps["resourceUri"], "text/plain",
				"Embedded resource content for testing."))},
			tool.TextMessage("user", "Please process the embedded resource above."),
		}
	case "test_prompt_with_image":
		p.Messages = []tool.Message{
			{Role: "user", Content: raw(media("image", "image/png", picture))},
			tool.TextMessage("user", "Please analyze the image above."),
		}
	case "test_input_required_result_prompt":
		if background, ok := formText(c, "user_context", "context"); ok {
			p.Messages = []tool.Message{tool.TextMessage("user", "Context: "+background)}
			break
		}
		r, err := ask(c,
			"", map[string]tool.Request{"user_context": elicitationRequest("What context should the prompt use?",
				contextForm)})
		if err != nil {
			return nil, err
		}
		p.InputRequired = r.InputRequired
	default:
		p.Messages = []tool.Message{tool.TextMessage("user", "I am still here.")}
	}
	return p, nil
}

// arguments returns the arguments of a prompt.
func arguments(p tool.Prompt, c *tool.Call) (map[string]string, error) {
	gaps := map[string]string{}
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &gaps); err != nil {
			return nil, tool.Fail(tool.BadArgs, "Arguments are texts.", err)
		}
	}
	for _, a := range p.Arguments {
		if _, ok := gaps[a.Name]; a.Required && !ok {
			return nil, tool.Fail(tool.BadArgs, "The argument "+a.Name+" is missing.", nil)
		}
	}
	return gaps, nil
}

// Complete implements [tool.PromptProvider].
func (f *Fixtures) Complete(_ context.Context, _ tool.Caller, prompt, argument, value string) ([]string, error) {
	i := slices.IndexFunc(prompts, func(p tool.Prompt) bool { return p.Name == prompt })
	if i < 0 {
		return nil, tool.ErrNotFound
	}
	if prompt != "test_prompt_with_arguments" || argument != "arg1" {
		return []string{}, nil
	}
	fits := []string{}
	for _, city := range []string{"paris", "park", "party"} {
		if strings.HasPrefix(city, value) {
			fits = append(fits, city)
		}
	}
	return fits, nil
}
