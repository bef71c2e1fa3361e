import type { MonTool, ToolActivity, ToolRow, Values } from './types';

/** What the model calls it; two tools of one name differ in it. */
export const toolKey = (tool: ToolRow) => tool.call_name ?? tool.name;

const names = (value: unknown): string[] => (Array.isArray(value) ? value.filter((x): x is string => typeof x === 'string') : []);

/** The server's rule: what is denied stays denied; with `enable-all-tools` false only what is named remains. */
export function isAllowed(values: Values, tool: ToolRow): boolean {
  const denied = names(values['denied-tools']);
  if (denied.includes(tool.name) || denied.includes(toolKey(tool))) return false;
  return values['enable-all-tools'] !== false || names(values.tools).includes(toolKey(tool));
}

/** The change of the form that allows or forbids one tool. */
export function allow(values: Values, tool: ToolRow, on: boolean): Values {
  const key = toolKey(tool);
  const without = (list: unknown) => names(list).filter((name) => name !== key && name !== tool.name);
  const denied = without(values['denied-tools']);
  if (values['enable-all-tools'] !== false) {
    return { 'denied-tools': on ? denied : [...denied, key] };
  }
  const tools = names(values.tools).filter((name) => name !== key);
  return { tools: on ? [...tools, key] : tools, ...(on && denied.length !== names(values['denied-tools']).length ? { 'denied-tools': denied } : {}) };
}

/** Names in the settings that no tool has now: kept, and told. */
export function unknownNames(values: Values, tools: ToolRow[]): string[] {
  const known = new Set(tools.flatMap((tool) => [tool.name, toolKey(tool)]));
  const used = values['enable-all-tools'] === false ? names(values.tools) : names(values['denied-tools']);
  return used.filter((name) => !known.has(name));
}

/** A call that begins is put at the end, its end takes its place. Ids may repeat from round to round. */
export function mergeActivity(list: ToolActivity[], call: ToolActivity): ToolActivity[] {
  const at = list.findLastIndex((item) => item.id === call.id && item.turn_id === call.turn_id && item.status === 'running');
  if (at < 0) return [...list, call];
  const next = list.slice();
  next[at] = call;
  return next;
}

/** As an entry of the monitoring, which shows such calls. */
export function asEntry(call: ToolActivity, index: number): MonTool {
  const failed = call.status === 'error';
  return {
    id: `${index}-${call.id}`,
    timestamp: '',
    tool_name: call.name,
    tool_source: call.source ?? '',
    duration: call.duration_ms ?? 0,
    status: call.status,
    session_id: null,
    message_id: null,
    arguments: call.arguments,
    result: failed ? null : (call.result ?? null),
    error_message: failed ? (call.result ?? '').replace(/^err: /, '') : null,
  };
}
