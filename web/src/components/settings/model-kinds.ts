import type { ModelKind, Requester } from '@/lib/types';

export const KINDS: ModelKind[] = ['llm', 'embedding', 'rerank'];

/** Requesters say "text-embedding" where the routes say "embedding"; one that says nothing takes all. */
export function kindsOf(requester: Requester | undefined): ModelKind[] {
  const support = requester?.spec.support_type;
  if (!support || support.length === 0) return KINDS;
  return KINDS.filter((kind) => support.includes(kind) || (kind === 'embedding' && support.includes('text-embedding')));
}
