import { Navigate, Outlet, createBrowserRouter, useLocation } from 'react-router';
import { ErrorPage, NotFoundPage } from './pages/error-page';
import { Spinner } from './ui/feedback';

function Pending() {
  return <Spinner className="h-dvh" />;
}

/** Keeps deep links to settings alive on the way to the dashboard. */
function HomeIndex() {
  const { search } = useLocation();
  return <Navigate to={`/home/monitoring${search}`} replace />;
}

export const router = createBrowserRouter([
  {
    element: <Outlet />,
    errorElement: <ErrorPage />,
    hydrateFallbackElement: <Pending />,
    children: [
      { index: true, element: <Navigate to="/login" replace /> },
      { path: 'login', lazy: () => import('./pages/login') },
      { path: 'register', lazy: () => import('./pages/register') },
      { path: 'reset-password', lazy: () => import('./pages/reset-password') },
      { path: 'invitations/accept', lazy: () => import('./pages/invitation') },
      { path: 'workspaces/select', lazy: () => import('./pages/workspace-select') },
      { path: 'workspace-unavailable', lazy: () => import('./pages/workspace-unavailable') },
      { path: 'backend-unavailable', lazy: () => import('./pages/backend-unavailable') },
      {
        lazy: () => import('./pages/session-layout'),
        children: [
          { path: 'wizard', lazy: () => import('./pages/wizard') },
          {
            path: 'home',
            lazy: () => import('./pages/home-layout'),
            children: [
              { index: true, element: <HomeIndex /> },
              { path: 'monitoring', lazy: () => import('./pages/monitoring') },
              { path: 'bots', lazy: () => import('./pages/bots') },
              { path: 'pipelines', lazy: () => import('./pages/pipelines') },
              { path: '*', element: <NotFoundPage inside /> },
            ],
          },
        ],
      },
      { path: '*', element: <NotFoundPage /> },
    ],
  },
]);
