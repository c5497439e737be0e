// The tools that the agent has in a turn. OpenClaw wants the names of a plugin's tools in its
// manifest. The commands of devices have such names. The tools of Patchbay differ from turn to
// turn, so that all of them are called through one, whose description lists them.

const deviceCommands = ["take_photo", "take_navigation", "control_calendar", "notify_agent_off"];

export const toolNames = ["patchbay_call", "patchbay_tools", ...deviceCommands];

// The description of patchbay_call is part of every request to the model: with more tools than
// fit, it has names only, and patchbay_tools tells the rest.
const longestList = 12_000;
const mostDescribed = 20;

/** The tools of a turn, or nothing for a run that Patchbay has not asked for. */
export function toolsOf(turn) {
  if (!turn) {
    return null;
  }
  const tools = [];
  const others = [];
  for (const f of turn.functions) {
    if (f.device && deviceCommands.includes(f.name)) {
      tools.push(tool(f.name, f.description, f.parameters, (args, signal) => turn.call(f.name, args, signal)));
    } else if (!f.device) {
      others.push(f);
    }
  }
  if (others.length === 0) {
    return tools;
  }
  const whole = others.map((f) => `- ${f.name}: ${f.description ?? ""}\n  arguments: ${JSON.stringify(f.parameters)}`).join("\n");
  const fits = whole.length <= longestList;
  tools.push(tool(
    "patchbay_call",
    "Calls one of the tools of the person who asks: their devices, services and records. " +
      (fits ? `The tools:\n${whole}` : "patchbay_tools tells what each does and its arguments. " +
        `The tools: ${others.map((f) => f.name).join(", ")}`),
    {
      type: "object",
      properties: {
        name: { type: "string", enum: others.map((f) => f.name), description: "which tool" },
        arguments: { type: "object", additionalProperties: true, description: "the arguments of that tool" },
      },
      required: ["name"],
      additionalProperties: false,
    },
    (args, signal) => turn.call(args.name, args.arguments, signal),
  ));
  if (!fits) {
    tools.push(tool(
      "patchbay_tools",
      "Finds tools for patchbay_call by words of their names and descriptions, and tells their arguments.",
      {
        type: "object",
        properties: { query: { type: "string", description: "words; without, the first tools are told" } },
        additionalProperties: false,
      },
      async ({ query }) => ({ content: JSON.stringify(find(others, query ?? "")) }),
    ));
  }
  return tools;
}

function find(functions, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const score = (f) => {
    const text = `${f.name} ${f.description ?? ""}`.toLowerCase();
    return words.filter((word) => text.includes(word)).length;
  };
  return functions
    .map((f) => ({ f, score: score(f) }))
    .filter(({ score }) => words.length === 0 || score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, mostDescribed)
    .map(({ f }) => ({ name: f.name, description: f.description, arguments: f.parameters }));
}

function tool(name, description, parameters, run) {
  return {
    name,
    label: name,
    description,
    parameters,
    async execute(_id, args, signal) {
      const { content } = await run(args ?? {}, signal);
      return { content: [{ type: "text", text: content }], details: {} };
    },
  };
}
