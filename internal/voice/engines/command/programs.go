package command

// Program is a program that is known to be an engine, with the arguments that it takes.
type Program struct {
	Name    string
	Listens bool // otherwise it speaks
	Argv    []string
	// Model is where one finds the models of a program that has none of its own; its argument is
	// {model}.
	Model string
}

// Programs are the known programs, the better ones first. Their manuals define the arguments:
// examples/cli/README.md of ggml-org/whisper.cpp, pocketsphinx_continuous(1) of cmusphinx
// 5prealpha, README.md of rhasspy/piper, espeak-ng(1), flite(1).
var Programs = []Program{
	{Name: "whisper-cli", Listens: true, Model: "https://huggingface.co/ggerganov/whisper.cpp",
		Argv: []string{"whisper-cli", "-m", "{model}", "-nt", "-np", "-l", "{lang}", "-f", "{file}"}},
	{Name: "pocketsphinx_continuous", Listens: true,
		Argv: []string{"pocketsphinx_continuous", "-infile", "{file}", "-logfn", "/dev/null"}},
	{Name: "piper", Model: "https://huggingface.co/rhasspy/piper-voices",
		Argv: []string{"piper", "-m", "{model}", "--output-raw"}},
	{Name: "espeak-ng", Argv: []string{"espeak-ng", "-v", "{lang}", "--stdout"}},
	{Name: "flite", Argv: []string{"flite", "-voice", "slt", "-t", "{text}", "-o", "/dev/stdout"}},
}
