import { createContext, useContext, useEffect } from 'react';
import { useTitle } from './title';

export interface Crumb {
  path: string[];
}
export const CrumbContext = createContext<(crumb: Crumb | null) => void>(() => {});

/** Names the page for the header and the document title. */
export function usePage(...path: (string | null | undefined)[]) {
  const set = useContext(CrumbContext);
  const parts = path.filter((part): part is string => Boolean(part));
  const key = parts.join('\u0000');
  useTitle(...parts.slice().reverse());
  useEffect(() => {
    set({ path: key ? key.split('\u0000') : [] });
  }, [key, set]);
}
